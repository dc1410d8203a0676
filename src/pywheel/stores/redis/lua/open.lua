-- Opening a store. ARGV: now, format, whether it may be made, the run id of the server.
-- After a restart, or on another server, some of what was promised last may be gone: ids and claims that were given out then
-- are not given out again. Returns '' if there is no store, or else its format.
local format = call('GET', P .. ':store')
if not format then
    if ARGV[3] ~= '1' then
        return {micros, ''}
    end
    format = ARGV[2]
    call('SET', P .. ':store', format)
    call('ZADD', P .. ':x', 0, sub(bid(0), 1, 5))
    call('HSET', P .. ':run', 'id', ARGV[4], 'base', 0)
end
if format == ARGV[2] and call('HGET', P .. ':run', 'id') ~= ARGV[4] then
    local last = tonumber(call('GET', P .. ':n') or 0)
    call('SET', P .. ':n', string.format('%.0f', (math.floor(last / BUMP) + 1) * BUMP))
    call('HSET', P .. ':run', 'id', ARGV[4])
    call('HINCRBY', P .. ':run', 'base', 1000)
end
return {micros, format}
