-- How many jobs wait between edges. ARGV: now, how many edges, these, and topics. Returns a number for each two edges.
local count = tonumber(ARGV[2])
local edges, found = {}, {}
for place = 1, count do
    edges[place] = ARGV[2 + place]
    found[place] = 0
end
found[count] = nil
local FEW = 2 * count -- counting costs more than to read so many

for at = 3 + count, #ARGV do
    local key = delayed_of(ARGV[at])
    local jobs = call('ZCOUNT', key, edges[1], '(' .. edges[count])
    if jobs > FEW then
        local before = call('ZCOUNT', key, '-inf', '(' .. edges[1])
        for place = 2, count do
            local now_before = call('ZCOUNT', key, '-inf', '(' .. edges[place])
            found[place - 1] = found[place - 1] + now_before - before
            before = now_before
        end
    elseif jobs > 0 then
        local part, place = call('ZRANGE', key, edges[1], '(' .. edges[count], 'BYSCORE', 'WITHSCORES'), 1
        for one = 2, #part, 2 do
            local due = tonumber(part[one])
            while due >= tonumber(edges[place + 1]) do
                place = place + 1
            end
            found[place] = found[place] + 1
        end
    end
end
return {micros, found}
