-- Who is there. Members are in :m with their topics, their beats in :b (when, whether behind, what is stopped), and what they want to hear in :h and :a.
local GONE = 60000 -- ms of silence after which a worker is taken from the list

local function bell_of(worker)
    return P .. ':bell:' .. worker
end

local function set_furthest()
    local furthest = false
    for _, horizon in ipairs(call('HVALS', P .. ':h')) do
        furthest = max(furthest or tonumber(horizon), tonumber(horizon))
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

-- A worker goes. ARGV: now, worker.
function api.leave()
    gone(ARGV[2])
    return {micros}
end

-- A worker says of what it wants hints. ARGV: now, worker, its horizon, and topics with the masks of its slices.
function api.hear()
    local worker = ARGV[2]
    if call('HEXISTS', P .. ':m', worker) == 1 then
        for place = 4, #ARGV, 2 do
            if ARGV[place + 1] == '0' then
                call('HDEL', P .. ':a:' .. ARGV[place], worker)
            else
                call('HSET', P .. ':a:' .. ARGV[place], worker, ARGV[place + 1])
            end
        end
        call('HSET', P .. ':h', worker, ARGV[3])
        set_furthest()
    end
    return {micros, call('GET', P .. ':v') or ''}
end

-- Who is there.
function api.roster()
    return {micros, first_lease(), call('GET', P .. ':v') or '', now, call('HGETALL', P .. ':b'), call('HGETALL', P .. ':m')}
end

-- A worker shows that it works, and learns who else does. ARGV: now, worker, behind, the number of the last pause since which
-- nothing of what was paused starts with it, the version of the list that it knows, and topics that it has room for: it is told
-- when the first job of these is due.
function api.beat()
    local worker, first = ARGV[2], false
    local before = call('HGET', P .. ':b', worker)
    sweep(worker)
    if call('HEXISTS', P .. ':m', worker) == 1 then
        call('HSET', P .. ':b', worker, string.format('%.0f %s %s', now, ARGV[3], ARGV[4]))
    end
    for place = 6, #ARGV do
        local due = call('HGET', P .. ':t', ARGV[place]) == '' and first_due(ARGV[place], '-inf')
        first = due and min(due, first or due) or first
    end
    local version = call('GET', P .. ':v') or ''
    return {micros, first_lease(), version, now, call('HGETALL', P .. ':b'),
        version ~= ARGV[5] and call('HGETALL', P .. ':m'), before and tonumber(string.match(before, '^-?%d+')),
        call('LLEN', P .. ':i:' .. worker), first and string.format('%.0f', first)}
end

-- A worker takes some of its hints. ARGV: now, worker. Returns for each: topic, id, the due time that was told, the present one, and
-- its priority; before them whether some are missing, and whether there are more.
function api.listen()
    local key = P .. ':i:' .. ARGV[2]
    local list = call('LPOP', key, 500) or {}
    local more, missed, found = #list == 500 and call('EXISTS', key) or 0, 0, {}
    local topics = {}
    for _, hint in ipairs(list) do
        if hint == '!' then
            missed = 1
        else
            local topic = sub(hint, 15)
            topics[topic] = topics[topic] or {}
            table.insert(topics[topic], hint)
        end
    end
    for topic, told in pairs(topics) do
        local ids = {}
        for place, hint in ipairs(told) do
            ids[place] = sub(hint, 1, 6)
        end
        for _, one in ipairs(lanes_of(topic)) do
            for place, due in ipairs(scores(one[3], ids)) do
                if due then
                    for _, value in ipairs({topic, ids[place], (struct.unpack('>d', told[place], 7)), due, one[2]}) do
                        found[#found + 1] = value
                    end
                end
            end
        end
    end
    return {micros, first_lease(), call('GET', P .. ':v') or '', tonumber(call('GET', P .. ':y') or 0), missed, more, found}
end

-- Whether a paused topic is quiet. ARGV: now, topic, and the silence in ms after which a worker begins with nothing it held.
-- Returns 1 if it is, 0 if not, -1 if it is not paused.
function api.quiet()
    local since = tonumber(call('HGET', P .. ':t', ARGV[2]) or '')
    if not since then
        return {micros, -1}
    end
    local members = call('HGETALL', P .. ':m')
    for place = 1, #members, 2 do
        for _, topic in ipairs(cjson.decode(members[place + 1])) do
            local beat = topic == ARGV[2] and (call('HGET', P .. ':b', members[place]) or '0 0 -1')
            local at, stopped = string.match(beat or '', '^(-?%d+) %S+ (-?%d+)$')
            if at and tonumber(stopped) < since and math.abs(now - tonumber(at)) <= tonumber(ARGV[3]) then
                return {micros, 0}
            end
        end
    end
    return {micros, 1}
end
