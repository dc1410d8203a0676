-- Delayed jobs, span by span. ARGV: now, limit, how many may be looked at, and for each span: topic, the mask of its shards,
-- the due time and the id after which, the due time until which, and the priority. Returns how many spans were read to their end, the
-- place up to which the next one was read, and topic by topic ids and due times.
local limit, budget = tonumber(ARGV[2]), tonumber(ARGV[3])
local PAGE, ALL, SHARD = 500, 4294967295, {}
for shard = 0, 31 do
    SHARD[shard] = bit.lshift(1, shard)
end

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

-- Jobs of other shards are most of what is read where there are many workers: their due times are not asked for.
local reply, spans, last = {}, 0, false
for at = 4, #ARGV, 6 do
    local topic, mask = ARGV[at], tonumber(ARGV[at + 1])
    local key, found, plain = delayed_of(topic), {}, ARGV[at + 5] == '0'
    if not plain then
        key = lane(topic, ARGV[at + 5])
    end
    if limit <= 0 or budget <= 0 then
        break
    end
    reply[#reply + 1] = found
    if mask ~= 0 and call('HGET', P .. ':t', topic) == '' then
        local rank = rank_after(key, ARGV[at + 2], ARGV[at + 3])
        local stop = call('ZCOUNT', key, '-inf', ARGV[at + 4])
        while rank < stop and limit > 0 and budget > 0 do
            local some = math.min(mask == ALL and limit or PAGE, PAGE, stop - rank)
            local part, mine = call('ZRANGE', key, rank, rank + some - 1), {}
            local other = plain and lanes_of(topic) > 0 and priorities(topic, part)
            for place = 1, some do
                local b = part[place]
                if bit.band(mask, SHARD[byte(b, 6) % 32]) ~= 0 and not (other and other[place] ~= 0) then
                    mine[#mine + 1] = b
                    limit = limit - 1
                    if limit == 0 then
                        break
                    end
                end
            end
            for place, due in ipairs(scores(key, mine)) do
                local size = #found
                found[size + 1], found[size + 2] = mine[place], due
            end
            rank, budget, last = rank + some, budget - some, part[some]
        end
        if limit > 0 and rank < stop then
            last = {call('ZSCORE', key, last), last}
            break
        end
    end
    spans = spans + 1
end
return {micros, spans, type(last) == 'table' and last, reply}
