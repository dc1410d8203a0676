-- Commands in order: the name of each kind, then its arguments. Claims are remembered without their bodies.
if latest == REQUEST then
    local outcomes = remembered()
    for place, outcome in ipairs(outcomes) do
        if type(outcome) == 'table' and outcome[1] == 'claim' then
            outcomes[place] = claimed_again(outcome[3], outcome[2])
        elseif type(outcome) == 'table' and outcome[1] == 'reserve' then
            outcomes[place] = claimed_again(outcome[2], {})
        end
    end
    return {micros, latest, first_lease(), outcomes}
end
local outcomes, kept, at = {}, {}, 4
if ARGV[4] == 'few_over' then -- a command wants all leases ended that are over: if these are too many, nothing happens
    if call('ZCOUNT', LEASES, '-inf', now) > tonumber(ARGV[5]) then
        return {micros, latest, first_lease(), false}
    end
    at = 6
end
while at <= #ARGV do
    local outcome, next, instead = commands[ARGV[at]](at + 1)
    outcomes[#outcomes + 1] = outcome
    kept[#kept + 1] = instead or outcome
    flush()
    at = next
end
keep_all()
tell_all()
remember(kept)
return {micros, latest, first_lease(), outcomes}
