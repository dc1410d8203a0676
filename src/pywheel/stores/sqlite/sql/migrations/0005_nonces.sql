-- Puts that happen once: what they came to, by their nonce, in the order of their arrival.

CREATE TABLE nonce (
    id INTEGER PRIMARY KEY,
    nonce TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,      -- when
    ids TEXT NOT NULL         -- JSON
);
