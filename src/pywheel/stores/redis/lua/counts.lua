-- Returns for each topic: its name, whether it is paused, how many are delayed, running, done, dead, cancelled. Where many run,
-- they are not counted yet: then their ids come too, 6 bytes each, with how many of them, the first, have lost their lease.
local FEW = 500 -- that this script counts by itself: counted.lua
local found, place_of = {}, {}
local topics = call('HGETALL', P .. ':t')
for place = 1, #topics, 2 do
    local topic = topics[place]
    local row = {topic, topics[place + 1] ~= '' and 1 or 0, call('ZCARD', delayed_of(topic)), 0}
    for state = DONE, CANCELLED do
        row[3 + state] = call('ZCARD', finished_of(state, topic))
    end
    found[#found + 1] = row
    place_of[topic] = row
end
local running = call('ZRANGE', LEASES, 0, -1)
if #running > FEW then
    return {micros, found, call('ZCOUNT', LEASES, '-inf', now), table.concat(running)}
end
states_of(running)
for _, b in ipairs(running) do
    local row = place_of[states[b][TOPIC]]
    row[3 + seen(states[b])] = row[3 + seen(states[b])] + 1
end
return {micros, found, 0, ''}
