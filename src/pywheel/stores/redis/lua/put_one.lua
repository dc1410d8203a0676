-- The commonest step of all by itself: one job, due beyond what anybody wants to be told. No function is made for it.
if ARGV[4] == '1' then
    local P, call, sub = KEYS[1], redis.call, string.sub
    local clock, asked, topic, when = call('TIME'), KEYS[1] .. ':q:' .. ARGV[2], ARGV[5], ARGV[7]
    local micros = clock[1] * 1000000 + clock[2]
    local now = tonumber(ARGV[1]) or math.floor(micros / 1000)
    local due = sub(when, 1, 1) == 'd' and now + sub(when, 2) or tonumber(when)
    local known = call('MGET', asked, P .. ':hmax')
    local latest = known[1] and tonumber(string.match(known[1], '^%d+')) or 0
    if latest < tonumber(ARGV[3]) and not (known[2] and due <= tonumber(known[2])) then
        local id = call('INCR', P .. ':n')
        local b = struct.pack('>I6', id)
        local chunk = sub(b, 1, 5)
        if id % 256 == 0 or id % 16777216 == 1 then
            call('ZADD', P .. ':x', math.floor(id / 256), chunk)
        end
        call('HSET', P .. ':j:' .. chunk, b, struct.pack('>I6', now + 70368744177664) .. ARGV[8])
        call('HSETNX', P .. ':t', topic, '')
        call('ZADD', P .. ':d:' .. topic, due, b)
        call('SET', asked, ARGV[3] .. ' ' .. cmsgpack.pack(id), 'PX', 600000)
        return {micros, latest, id}
    end
end
