"""The executors of handlers: threads, an event loop, and isolated processes."""
