-- Keeping notes.

-- ARGV[at]: name, '1' if there must be none, ttl or '', and the value with a v before it, or '' to delete. Returns a list of
-- what was there before: '' is a value too.
function commands.keep(at)
    local name, ttl, value = ARGV[at], tonumber(ARGV[at + 2]), ARGV[at + 3]
    local before = call('HGET', NOTES, name)
    before = before and now < struct.unpack('>d', before) and sub(before, 9)
    if not (before and ARGV[at + 1] == '1') then
        if value ~= '' then
            set_note(name, sub(value, 2), ttl and now + ttl)
        else
            remove_note(name)
        end
    end
    if ttl then
        forget_notes(NOTES_FORGOTTEN)
    end
    return before and {before} or {}, at + 4
end
