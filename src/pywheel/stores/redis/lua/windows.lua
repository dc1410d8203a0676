-- Delayed jobs, span by span. ARGV: now, limit, how many may be looked at, and for each span: topic, the mask of its shards,
-- the due time and the id after which, the due time until which, and the priority. Returns how many spans were read to their end, the
-- place up to which the next one was read, and topic by topic ids and due times.
local limit, budget = tonumber(ARGV[2]), tonumber(ARGV[3])
local PAGE, ALL, SHARD = 500, 4294967295, {}
for shard = 0, 31 do
    SHARD[shard] = bit.lshift(1, shard)
end

-- Jobs of other shards are most of what is read where there are many workers: their due times are not asked for.
local reply, spans, last = {}, 0, false
for at = 4, #ARGV, 6 do
    local topic, mask = ARGV[at], tonumber(ARGV[at + 1])
    local key, found, among_lanes = delayed_of(topic), {}, ARGV[at + 5] == '0' and lanes_of(topic) > 0
    if ARGV[at + 5] ~= '0' then
        key = lane(topic, ARGV[at + 5])
    end
    if limit <= 0 or budget <= 0 then
        break
    end
    reply[#reply + 1] = found
    if mask ~= 0 and call('HGET', P .. ':t', topic) == '' then
        local rank = plain.rank_after(key, ARGV[at + 2], ARGV[at + 3])
        local stop, page = call('ZCOUNT', key, '-inf', ARGV[at + 4]), plain.FEW
        while rank < stop and limit > 0 and budget > 0 do
            local part, mine, looked = nil, {}, plain.looked
            if among_lanes then
                part, rank, page = plain.part(topic, rank, stop, page)
                budget = budget - (plain.looked - looked)
            else
                local some = math.min(mask == ALL and limit or PAGE, PAGE, stop - rank)
                part = call('ZRANGE', key, rank, rank + some - 1)
                rank, budget = rank + some, budget - some
            end
            for place, b in ipairs(part) do
                if bit.band(mask, SHARD[byte(b, 6) % 32]) ~= 0 then
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
        end
        if limit > 0 and rank < stop then
            local there = call('ZRANGE', key, rank - 1, rank - 1, 'WITHSCORES')
            last = {there[2], there[1]}
            break
        end
    end
    spans = spans + 1
end
return {micros, spans, last, reply}
