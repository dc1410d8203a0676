-- Whether a paused topic is quiet. ARGV: now, topic, and the silence in ms after which a worker begins with nothing it held.
-- Returns 1 if it is, 0 if not, -1 if it is not paused.
local since = tonumber(call('HGET', P .. ':t', ARGV[2]) or '')
if not since then
    return {micros, -1}
end
local members = call('HGETALL', P .. ':m')
for place = 1, #members, 2 do
    for _, topic in ipairs(cjson.decode(members[place + 1])) do
        if topic == ARGV[2] then
            local beat = call('HGET', P .. ':b', members[place]) or '0 0 -1'
            local at, stopped = string.match(beat, '^(-?%d+) %S+ (-?%d+)$')
            if tonumber(stopped) < since and math.abs(now - tonumber(at)) <= tonumber(ARGV[3]) then
                return {micros, 0}
            end
        end
    end
end
return {micros, 1}
