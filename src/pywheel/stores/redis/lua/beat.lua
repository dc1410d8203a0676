-- A worker shows that it works, and learns who else does. ARGV: now, worker, behind, the number of the last pause since which
-- nothing of what was paused starts with it, and the version of the list that it knows.
local worker = ARGV[2]
local before = call('HGET', P .. ':b', worker)
sweep(worker)
if call('HEXISTS', P .. ':m', worker) == 1 then
    call('HSET', P .. ':b', worker, string.format('%.0f %s %s', now, ARGV[3], ARGV[4]))
end
local version = call('GET', P .. ':v') or ''
return {micros, first_lease(), version, now, call('HGETALL', P .. ':b'),
    version ~= ARGV[5] and call('HGETALL', P .. ':m'), before and tonumber(string.match(before, '^-?%d+')),
    call('LLEN', P .. ':i:' .. worker)}
