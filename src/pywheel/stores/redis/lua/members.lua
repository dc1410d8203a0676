-- Who is there. Members are in :m with their topics, their beats in :b (when, whether behind, what is stopped), and what they want to hear in :h and :a.
local GONE = 60000 -- ms of silence after which a worker is taken from the list

local function bell_of(worker)
    return P .. ':bell:' .. worker
end

local function set_furthest()
    local furthest = false
    for _, horizon in ipairs(call('HVALS', P .. ':h')) do
        furthest = math.max(furthest or tonumber(horizon), tonumber(horizon))
    end
    if furthest then
        call('SET', P .. ':hmax', furthest)
    else
        call('DEL', P .. ':hmax')
    end
end

-- Takes a worker from the audiences of its topics.
local function unhear(worker)
    local topics = call('HGET', P .. ':m', worker)
    for _, topic in ipairs(topics and cjson.decode(topics) or {}) do
        call('HDEL', P .. ':a:' .. topic, worker)
    end
end

local function others_look()
    call('INCR', P .. ':v')
    call('PUBLISH', P .. ':bell', 'members')
end

local function gone(worker)
    unhear(worker)
    call('DEL', P .. ':i:' .. worker)
    call('HDEL', P .. ':b', worker)
    if call('HDEL', P .. ':h', worker) == 1 then
        set_furthest()
    end
    if call('HDEL', P .. ':m', worker) == 1 then
        others_look()
    end
end

-- Takes away those who are certainly gone: nobody listens to their bell, as their process died, or they are silent for long.
local function sweep(me)
    local workers, bells = {}, {}
    for _, worker in ipairs(call('HKEYS', P .. ':m')) do
        if worker ~= me then
            workers[#workers + 1] = worker
            bells[#bells + 1] = bell_of(worker)
        end
    end
    if #bells == 0 then
        return
    end
    local listening = call('PUBSUB', 'NUMSUB', unpack(bells))
    for place, worker in ipairs(workers) do
        local beat = call('HGET', P .. ':b', worker)
        local at = beat and tonumber(string.match(beat, '^-?%d+')) or 0
        if listening[2 * place] == 0 or math.abs(now - at) > GONE then
            gone(worker)
        end
    end
end
