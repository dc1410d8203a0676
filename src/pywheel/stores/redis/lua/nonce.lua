-- The ids of the put that had a nonce. ARGV: now, nonce, and if it is to be noted where it is not known, '+' and its ids.
local known = call('HGET', NONCES, ARGV[2])
if known then
    return {micros, cmsgpack.unpack(known)}
end
if ARGV[3] then
    local ids = {}
    for place = 4, #ARGV do
        ids[place - 3] = tonumber(ARGV[place]) or ARGV[place]
    end
    call('HSET', NONCES, ARGV[2], cmsgpack.pack(ids))
    call('ZADD', NONCES_BY_TIME, now, ARGV[2])
    forget_nonces(NONCES_FORGOTTEN)
end
return {micros, false}
