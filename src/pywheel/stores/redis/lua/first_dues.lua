-- When the first job of each span's shards is due beyond it. ARGV: now, and for each span: topic, mask, due time.
local OTHERS = 255 -- jobs of other shards that are looked at
local over = call('ZRANGE', LEASES, '-inf', now, 'BYSCORE', 'LIMIT', 0, SOME)
states_of(over)
local reply, lost = {}, {} -- of each topic those that are due again
for _, b in ipairs(over) do
    local to, due = when_lost(states[b])
    if to == DELAYED then
        local topic = states[b][TOPIC]
        lost[topic] = lost[topic] or {}
        table.insert(lost[topic], {byte(b, 6) % 32, due or states[b][DUE]})
    end
end
for at = 2, #ARGV, 3 do
    local topic, mask, first = ARGV[at], tonumber(ARGV[at + 1]), nil
    local key, after = delayed_of(topic), tonumber(ARGV[at + 2])
    local most = mask == 4294967295 and 1 or OTHERS
    if mask ~= 0 then
        local found = call('ZRANGE', key, '(' .. ARGV[at + 2], '+inf', 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
        for place = 1, #found, 2 do
            if bit.band(mask, bit.lshift(1, byte(found[place], 6) % 32)) ~= 0 then
                first = tonumber(found[place + 1])
                break
            end
        end
        if not first and #found == 2 * most then
            first = tonumber(found[#found])
        end
        for _, one in ipairs(lost[topic] or {}) do
            if bit.band(mask, bit.lshift(1, one[1])) ~= 0 and one[2] > after and one[2] < (first or math.huge) then
                first = one[2]
            end
        end
    end
    reply[#reply + 1] = first or false
end
return {micros, reply}
