-- The jobs that ended last. ARGV: now, topic with a t before it or '', since when, how many. Returns of each: id, topic, key,
-- state, due time, when its last attempt started and ended, its number, worker, and why it failed.
local topic = ARGV[2] ~= '' and sub(ARGV[2], 2) or nil
local since, limit = tonumber(ARGV[3]), tonumber(ARGV[4])
local sources = {}
for _, name in ipairs(topic and {topic} or call('HKEYS', P .. ':t')) do
    for state = DONE, CANCELLED do
        sources[#sources + 1] = {finished_of(state, name), 0}
    end
end
local ids = {}
for place, entry in ipairs(limit > 0 and merged(sources, limit, true, since) or {}) do
    ids[place] = entry[2]
end
states_of(ids)
local reply = {}
for place, b in ipairs(ids) do
    local state = states[b]
    reply[place] = {b, state[TOPIC], state[KEY], state[STATE], state[DUE], state[STARTED], state[ENDED], state[ATTEMPT] or 0,
        state[WORKER], state[OUTCOME] == WAS_FAILED and state[WHY]}
end
return {micros, reply}
