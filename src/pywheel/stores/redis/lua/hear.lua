-- A worker says of what it wants hints. ARGV: now, worker, its horizon, and topics with the masks of its shards.
local worker = ARGV[2]
if call('HEXISTS', P .. ':m', worker) == 1 then
    for place = 4, #ARGV, 2 do
        if ARGV[place + 1] == '0' then
            call('HDEL', P .. ':a:' .. ARGV[place], worker)
        else
            call('HSET', P .. ':a:' .. ARGV[place], worker, ARGV[place + 1])
        end
    end
    call('HSET', P .. ':h', worker, ARGV[3])
    set_furthest()
end
return {micros, call('GET', P .. ':v') or ''}
