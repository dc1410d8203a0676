-- A worker takes some of its hints. ARGV: now, worker. Returns for each: topic, id, the due time that was told, the present one, and
-- its priority; before them whether some are missing, and whether there are more.
local key = P .. ':i:' .. ARGV[2]
local list = call('LPOP', key, SOME) or {}
local more = #list == SOME and call('EXISTS', key) or 0
local by_topic, missed, order = {}, 0, {}
for _, hint in ipairs(list) do
    if hint == '!' then
        missed = 1
    else
        local topic = sub(hint, 15)
        if not by_topic[topic] then
            by_topic[topic] = {}
            order[#order + 1] = topic
        end
        local ids = by_topic[topic]
        ids[#ids + 1] = sub(hint, 1, 6)
    end
end
local found = {}
for _, topic in ipairs(order) do
    local dues = scores(delayed_of(topic), by_topic[topic])
    by_topic[topic].dues, by_topic[topic].next = dues, 1
    by_topic[topic].priorities = lanes_of(topic) > 0 and priorities(topic, by_topic[topic])
end
for _, hint in ipairs(list) do
    local ids = by_topic[sub(hint, 15)]
    if hint ~= '!' then
        local due, priority = ids.dues[ids.next], ids.priorities and ids.priorities[ids.next] or 0
        ids.next = ids.next + 1
        if due then
            local size = #found
            found[size + 1], found[size + 2] = sub(hint, 15), sub(hint, 1, 6)
            found[size + 3], found[size + 4] = struct.unpack('>d', hint, 7), due
            found[size + 5] = priority
        end
    end
end
return {micros, first_lease(), call('GET', P .. ':v') or '', tonumber(call('GET', P .. ':y') or 0), missed, more, found}
