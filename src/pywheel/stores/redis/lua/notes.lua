-- Keeping notes.

-- ARGV[at]: name, '1' if there must be none, ttl or '', and the value with a v before it, or '' to delete. Returns a list of
-- what was there before: '' is a value too.
function commands.keep(at)
    local name, ttl, value = ARGV[at], tonumber(ARGV[at + 2]), ARGV[at + 3]
    local before = notes.get(name)
    if not (before and ARGV[at + 1] == '1') then
        if value ~= '' then
            notes.set(name, sub(value, 2), ttl and now + ttl)
        else
            notes.remove(name)
        end
    end
    if ttl then
        notes.forget(notes.FORGOTTEN)
    end
    return before and {before} or {}, at + 4
end
