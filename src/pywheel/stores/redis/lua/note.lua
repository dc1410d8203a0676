-- Notes by name. ARGV: now, the least name, with a [ or ( before it, the name before which they end, with a (, and how many to
-- look at; or one name alone. Returns how many were looked at, the last of them, and names and values.
local notes = P .. ':e'
local function read_note(packed)
    return packed and now < struct.unpack('>d', packed) and sub(packed, 9)
end

if not ARGV[3] then
    local value = read_note(call('HGET', notes, ARGV[2]))
    return {micros, value and {value} or {}}
end
local names = call('ZRANGE', P .. ':c', ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, tonumber(ARGV[4]))
local reply = {}
for place, packed in ipairs(#names > 0 and call('HMGET', notes, unpack(names)) or {}) do
    local value = read_note(packed)
    if value then
        reply[#reply + 1] = names[place]
        reply[#reply + 1] = value
    end
end
return {micros, #names, names[#names] or '', reply}
