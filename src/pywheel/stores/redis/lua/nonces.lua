-- Nonces: what the puts that had them came to.

-- Forgets up to so many nonces that are old enough: jobs/commands.py says when they are.
local NONCES_KEPT, NONCES_FORGOTTEN = 31 * 86400000, 10
local NONCES, NONCES_BY_TIME = P .. ':w', P .. ':u'
local function forget_nonces(limit)
    local old = call('ZRANGE', NONCES_BY_TIME, '-inf', now - NONCES_KEPT, 'BYSCORE', 'LIMIT', 0, limit)
    each_part('ZREM', NONCES_BY_TIME, old)
    each_part('HDEL', NONCES, old)
end
