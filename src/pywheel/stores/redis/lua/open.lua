-- Opening a store. ARGV: now, the version that this client knows, the least that goes with it, whether it may be made, the run id
-- of the server. The format says version and least: an older store becomes one of this version, a newer one stays what it is.
-- After a restart, or on another server, some of what was promised last may be gone: ids and claims that were given out then
-- are not given out again. Returns '' if there is no store, or else its format.
local format, mine = call('GET', P .. ':store'), 'pywheel ' .. ARGV[2] .. (ARGV[3] ~= ARGV[2] and ' ' .. ARGV[3] or '')
if not format then
    if ARGV[4] ~= '1' then
        return {micros, ''}
    end
    format = mine
    call('SET', P .. ':store', format)
    call('ZADD', P .. ':x', 0, sub(bid(0), 1, 5))
    call('HSET', P .. ':run', 'id', ARGV[5], 'base', 0)
end
local version, least = string.match(format, '^pywheel (%d+) ?(%d*)$')
if version and tonumber(version) < tonumber(ARGV[2]) then
    format = mine
    call('SET', P .. ':store', format)
elseif not version or tonumber(least ~= '' and least or version) > tonumber(ARGV[2]) then
    return {micros, format}
end
if call('HGET', P .. ':run', 'id') ~= ARGV[5] then
    local last = tonumber(call('GET', P .. ':n') or 0)
    call('SET', P .. ':n', string.format('%.0f', (math.floor(last / BUMP) + 1) * BUMP))
    call('HSET', P .. ':run', 'id', ARGV[5])
    call('HINCRBY', P .. ':run', 'base', 1000)
end
return {micros, format}
