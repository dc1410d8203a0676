-- How many jobs wait. ARGV: now, what is asked for, how many numbers, these, and topics.
-- sizes: of each topic how many. spans: two numbers each; how many of all topics in each. few: a first due time, an end, and a
-- number of jobs; of each topic the due times, or how many there are where these are as many.
local asked, count = ARGV[2], tonumber(ARGV[3])
local numbers, found = {}, {}
for place = 1, count do
    numbers[place] = ARGV[3 + place]
end
for at = 4 + count, #ARGV do
    local key, place = delayed_of(ARGV[at]), at - 3 - count
    if asked == 'sizes' then
        found[place] = call('ZCARD', key)
    elseif asked == 'spans' then
        for span = 1, count / 2 do
            local jobs = call('ZCOUNT', key, numbers[2 * span - 1], '(' .. numbers[2 * span])
            found[span] = (found[span] or 0) + jobs
        end
    else
        local share, stop = tonumber(numbers[3]), '(' .. numbers[2]
        if call('ZCOUNT', key, numbers[1], stop) >= share then -- counting them is cheaper than reading them
            found[place] = share
        else
            local dues = {}
            local part = call('ZRANGE', key, numbers[1], stop, 'BYSCORE', 'WITHSCORES')
            for one = 2, #part, 2 do
                dues[one / 2] = part[one]
            end
            found[place] = dues
        end
    end
end
return {micros, found}
