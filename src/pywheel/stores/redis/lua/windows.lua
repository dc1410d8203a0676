-- Delayed jobs, span by span. ARGV: now, limit, how many may be looked at, and for each span: topic, the mask of its shards,
-- the due time and the id after which, and the due time until which. Returns how many spans were read to their end, the
-- place up to which the next one was read, and topic by topic ids and due times.
local limit, budget = tonumber(ARGV[2]), tonumber(ARGV[3])
local PAGE = 500

-- Returns how many of a topic's jobs lie before a place: of those with the same due time the ids decide.
local function rank_after(key, due, b)
    local low = call('ZCOUNT', key, '-inf', '(' .. due)
    local high = low + call('ZCOUNT', key, due, due)
    while low < high do
        local middle = math.floor((low + high) / 2)
        if call('ZRANGE', key, middle, middle)[1] <= b then
            low = middle + 1
        else
            high = middle
        end
    end
    return low
end

local reply, spans, last = {}, 0, false
for at = 4, #ARGV, 5 do
    local topic, mask = ARGV[at], tonumber(ARGV[at + 1])
    local key, found = delayed_of(topic), {}
    if limit <= 0 or budget <= 0 then
        break
    end
    if mask ~= 0 and call('HGET', P .. ':t', topic) == '' then
        local rank = rank_after(key, ARGV[at + 2], ARGV[at + 3])
        local stop = call('ZCOUNT', key, '-inf', ARGV[at + 4])
        while rank < stop and limit > 0 and budget > 0 do
            local some = math.min(mask == 4294967295 and limit or PAGE, PAGE, stop - rank)
            local part = call('ZRANGE', key, rank, rank + some - 1, 'WITHSCORES')
            for place = 1, #part, 2 do
                local b = part[place]
                if bit.band(mask, bit.lshift(1, byte(b, 6) % 32)) ~= 0 then
                    found[#found + 1] = b
                    found[#found + 1] = part[place + 1]
                    limit = limit - 1
                    if limit == 0 then
                        break
                    end
                end
            end
            rank = rank + some
            budget = budget - some
            last = {part[#part], part[#part - 1]}
        end
        reply[#reply + 1] = found
        if limit > 0 and rank < stop then
            break
        end
    else
        reply[#reply + 1] = found
    end
    spans = spans + 1
end
return {micros, spans, last, reply}
