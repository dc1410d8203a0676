-- A request that comes twice, because a connection broke, happens once: what the first one came to is kept for a while.
local ASKED = P .. ':q:' .. ARGV[2]
local REQUEST = tonumber(ARGV[3])
local KEPT = 600000 -- ms
local before = call('GET', ASKED)
local latest = before and tonumber(string.match(before, '^%d+')) or 0
if latest > REQUEST then
    return redis.error_reply('STALE this request was given up')
end

local function remember(outcome)
    call('SET', ASKED, ARGV[3] .. ' ' .. cmsgpack.pack(outcome), 'PX', KEPT)
end

local function remembered()
    return cmsgpack.unpack(sub(before, string.find(before, ' ', 1, true) + 1))
end
