-- The sets that together hold the jobs of topics in a state, or in any, and perhaps some others.
local function sets(topics, state)
    local found = {}
    for _, name in ipairs(topics) do
        if not state or state == DELAYED then
            found[#found + 1] = delayed_of(name)
        end
        for one = DONE, CANCELLED do
            if not state or state == one then
                found[#found + 1] = finished_of(one, name)
            end
        end
    end
    if not state or state <= RUNNING or state == DEAD then
        found[#found + 1] = LEASES
    end
    return found
end
