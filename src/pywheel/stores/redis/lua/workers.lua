-- Changes of the list of workers, which lua/hints.lua describes.
local GONE = 60000 -- ms of silence after which a worker is taken from the list
local SHARE = 20 -- workers that are looked at together

local function set_furthest()
    local horizon = call('ZRANGE', K.horizons, 0, 0, 'REV', 'WITHSCORES')[2]
    if horizon then
        call('SET', K.furthest, horizon)
    else
        call('DEL', K.furthest)
    end
end

-- Removes a worker from the audiences of its topics.
local function unhear(worker)
    local handled = call('HGET', K.workers, worker)
    for _, topic in ipairs(handled and cjson.decode(handled) or {}) do
        call('HDEL', P .. ':a:' .. topic, worker)
    end
end

local function others_look()
    call('INCR', K.version)
    call('PUBLISH', K.bell, 'm')
end

local function gone(worker)
    unhear(worker)
    call('HDEL', K.beats, worker)
    if call('ZREM', K.horizons, worker) == 1 then
        set_furthest()
    end
    if call('HDEL', K.workers, worker) == 1 then
        others_look()
    end
end

function commands.announce(asked)
    unhear(asked.worker)
    if #asked.topics == 0 then
        gone(asked.worker)
    else
        call('HSET', K.workers, asked.worker, cjson.encode(asked.topics))
        call('HSET', K.beats, asked.worker, digits(now) .. ' 0 -1')
        others_look()
    end
    return 0
end

-- Removes workers that are certainly gone: nobody listens to their bell, as their process died, or they have been silent for long. It looks
-- at some, and at others as long as it finds any: where hundreds beat, each is looked at many times a second.
local function sweep(me)
    local found
    repeat
        found = false
        local workers, bells = {}, {}
        for _, worker in ipairs(call('HRANDFIELD', K.workers, SHARE)) do
            if worker ~= me then
                workers[#workers + 1], bells[#bells + 1] = worker, bell_of(worker)
            end
        end
        local listening = bells[1] and call('PUBSUB', 'NUMSUB', unpack(bells))
        for place, worker in ipairs(workers) do
            local beat = call('HGET', K.beats, worker)
            local when = beat and tonumber(string.match(beat, '^-?%d+')) or 0
            if listening[2 * place] == 0 or math.abs(now - when) > GONE then
                gone(worker)
                found = true
            end
        end
    until not found
end

-- Returns the earliest time at which a lease may be over, and the workers: the version of the list, the number of the last pause, the
-- beats, and the topics of each worker, unless this version is known.
function api.roster(asked)
    local version, pauses = unpack(call('MGET', K.version, K.pauses))
    local members = version ~= asked.known and call('HGETALL', K.workers)
    return first_lease(), version or '', tonumber(pauses or 0), call('HGETALL', K.beats), members
end

-- Removes a worker that leaves.
function api.leave(asked)
    gone(asked.worker)
end

-- Stores a worker's horizon, and its slices of each topic. Returns the version of the list.
function api.hear(asked)
    if call('HEXISTS', K.workers, asked.worker) == 1 then
        for topic, mask in pairs(asked.masks) do
            if mask == 0 then
                call('HDEL', P .. ':a:' .. topic, asked.worker)
            else
                call('HSET', P .. ':a:' .. topic, asked.worker, digits(mask) .. ' ' .. digits(asked.horizon))
            end
        end
        call('ZADD', K.horizons, asked.horizon, asked.worker)
        set_furthest()
    end
    return call('GET', K.version) or ''
end

-- Stores a worker's beat: the time, since when it is `behind`, and the pause that it has `obeyed`. Returns the first due times of topics
-- for which it has room, and the roster.
function api.beat(asked)
    local worker = asked.worker
    sweep(worker)
    if call('HEXISTS', K.workers, worker) == 1 then
        call('HSET', K.beats, worker, digits(now) .. ' ' .. digits(asked.behind) .. ' ' .. digits(asked.obeyed))
    end
    return api.next_dues(asked), api.roster(asked)
end

