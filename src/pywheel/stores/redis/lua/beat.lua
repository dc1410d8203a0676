-- A worker shows that it works, and learns who else does. ARGV: now, worker, behind, the number of the last pause since which
-- nothing of what was paused starts with it, the version of the list that it knows, and topics that it has room for: it is told
-- when the first job of these is due.
local worker = ARGV[2]
local before = call('HGET', P .. ':b', worker)
sweep(worker)
if call('HEXISTS', P .. ':m', worker) == 1 then
    call('HSET', P .. ':b', worker, string.format('%.0f %s %s', now, ARGV[3], ARGV[4]))
end
local version = call('GET', P .. ':v') or ''
local first = false -- when the first of the topics' jobs is due
for place = 6, #ARGV do
    local found = call('ZRANGE', delayed_of(ARGV[place]), 0, 0, 'WITHSCORES')[2]
    if found and (not first or tonumber(found) < tonumber(first)) and call('HGET', P .. ':t', ARGV[place]) == '' then
        first = found
    end
end
return {micros, first_lease(), version, now, call('HGETALL', P .. ':b'),
    version ~= ARGV[5] and call('HGETALL', P .. ':m'), before and tonumber(string.match(before, '^-?%d+')),
    call('LLEN', P .. ':i:' .. worker), first}
