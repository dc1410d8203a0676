-- ARGV: now, ids in 6 bytes each. Returns for each the state that readers see, -1 without a job.
local ids, found = {}, {}
for place = 2, #ARGV do
    ids[place - 1] = ARGV[place]
end
states_of(ids)
for place, b in ipairs(ids) do
    local there = states[b] or call('HEXISTS', of_job(b), b) == 1
    found[place] = there and seen(states[b]) or -1
end
return {micros, found}
