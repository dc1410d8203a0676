-- Opening a store. ARGV: now, the version that this client knows, the least that goes with it, whether it may be made, the run id
-- of the server. The format says version and least: an older store becomes one of this version, a newer one stays what it is. The
-- least is never less than it was: what a store has in it may ask for more than a version does (lanes.lua).
-- After a restart, or on another server, some of what was promised last may be gone: ids and claims that were given out then
-- are not given out again. Returns '' if there is no store, or else its format.
local format = call('GET', P .. ':store')
local function mine(least)
    return 'pywheel ' .. ARGV[2] .. (least ~= tonumber(ARGV[2]) and ' ' .. least or '')
end
if not format then
    if ARGV[4] ~= '1' then
        return {micros, ''}
    end
    format = mine(tonumber(ARGV[3]))
    call('SET', P .. ':store', format)
    call('ZADD', P .. ':x', 0, sub(bid(0), 1, 5))
    call('HSET', P .. ':run', 'id', ARGV[5], 'base', 0)
end
local version, least = string.match(format, '^pywheel (%d+) ?(%d*)$')
least = tonumber(least ~= '' and least or version)
if version and tonumber(version) < tonumber(ARGV[2]) then
    format = mine(math.max(least, tonumber(ARGV[3])))
    call('SET', P .. ':store', format)
elseif not version or least > tonumber(ARGV[2]) then
    return {micros, format}
end
if call('HGET', P .. ':run', 'id') ~= ARGV[5] then
    local last = tonumber(call('GET', P .. ':n') or 0)
    call('SET', P .. ':n', string.format('%.0f', (math.floor(last / BUMP) + 1) * BUMP))
    call('HSET', P .. ':run', 'id', ARGV[5])
    call('HINCRBY', P .. ':run', 'base', 1000)
end
return {micros, format}
