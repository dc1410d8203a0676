-- Notes by name. ARGV: now, the least name, with a [ or ( before it, the name before which they end, with a (, and how many to
-- look at; or one name alone. Returns the last name looked at, and names and values.
if not ARGV[3] then
    local value = read_note(call('HGET', NOTES, ARGV[2]))
    return {micros, value and {value} or {}}
end
local names = call('ZRANGE', NOTE_NAMES, ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, tonumber(ARGV[4]))
local reply = {}
for place, packed in ipairs(#names > 0 and call('HMGET', NOTES, unpack(names)) or {}) do
    local value = read_note(packed)
    if value then
        reply[#reply + 1] = names[place]
        reply[#reply + 1] = value
    end
end
return {micros, #names, names[#names] or '', reply}
