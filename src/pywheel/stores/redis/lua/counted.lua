-- How some jobs that were running as they were listed count. ARGV: now, 1 if their leases were over then, and their ids, 6 bytes
-- each. Returns topics, each followed by how many are running, delayed, and dead.
local over, ids, rows, reply = ARGV[2] == '1', {}, {}, {}
for first = 1, #ARGV[3], 6 do
    ids[#ids + 1] = sub(ARGV[3], first, first + 5)
end
states_of(ids)
for _, b in ipairs(ids) do
    local state = states[b]
    if state then
        local row = rows[state[TOPIC]]
        if not row then
            row = {0, 0, 0}
            rows[state[TOPIC]] = row
            reply[#reply + 1] = state[TOPIC]
            reply[#reply + 1] = row
        end
        local place = 1
        if over then
            local to = state[STATE] == RUNNING and seen(state) or state[STATE]
            place = to == DEAD and 3 or 2
        end
        row[place] = row[place] + 1
    end
end
return {micros, reply}
