-- Checking jobs and the places where they stand: jobs and their states are the truth.
local NOWHERE, TWICE, NO_JOB, INDEXES, KEYS_OF_NONE, KEYLESS, HISTORY, IDS_GIVEN, TOPICS, NOTES_LISTED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local wrongs, mends
local check = {} -- by kind of key

-- Notes a fault; returns whether it is to be mended.
local function wrong(fault, b)
    wrongs[#wrongs + 1] = fault
    wrongs[#wrongs + 1] = fault ~= NOTES_LISTED and number(b) or b
    return mends
end

-- Returns a job's state; nil if there is no job.
local function read(b)
    return call('HEXISTS', chunk(':j:', b), b) == 1 and state_or_new(b, now) or nil
end

-- Returns where a job should stand, by key: {member, score or nil for any, the fault if it does not}.
local function places_of(b, state)
    local topic, key, found = state[TEXT].topic, state[TEXT].key, {}
    if state[STATE] == DELAYED then
        found[P .. ':d:' .. lane_name(state[PRIORITY], state[LOST]) .. ':' .. topic] = {b, nil, NOWHERE}
    elseif state[STATE] == RUNNING then
        found[keys_of(topic).leases] = {b, state[LEASE], INDEXES}
        if key and grouped(topic) then
            found[keys_of(topic).groups] = {key .. '\0' .. b, 0, INDEXES}
        end
    else
        found[keys_of(topic)[state[STATE]]] = {b, state[ENDED], INDEXES}
    end
    if key and call('HGET', keys_of(topic).holders, key) ~= b then
        found[former_of(topic, key)] = {b, number(b), state[STATE] > RUNNING and INDEXES or KEYLESS}
    end
    return found
end

-- Members of a set of places.
local function check_members(kind, name)
    local set = P .. ':' .. kind .. ':' .. name
    for place = at, #ARGV do
        local member, b = ARGV[place], sub(ARGV[place], -6)
        if call('ZSCORE', set, member) then
            local state = read(b)
            local there = state and places_of(b, state)[set]
            if not (there and there[1] == member) and wrong(state and TWICE or NO_JOB, b) then
                call('ZREM', set, member)
            end
        end
    end
end
for _, kind in ipairs({'d', 'l', 'f', 'g', 'o'}) do
    check[kind] = check_members
end

-- Those that have a key, by keys.
function check.k(_, name)
    for place = at, #ARGV do
        local b = call('HGET', keys_of(name).holders, ARGV[place])
        local state = b and read(b)
        if b and not (state and state[TEXT].topic == name and state[TEXT].key == ARGV[place] and state[STATE] <= RUNNING)
            and wrong(KEYS_OF_NONE, b) then
            call('HDEL', keys_of(name).holders, ARGV[place])
        end
    end
end

-- Notes by name, wherever they stand.
function check.e()
    for place = at, #ARGV do
        local note, packed = ARGV[place], call('HGET', P .. NOTES.values, ARGV[place])
        local over = packed and struct.unpack('>d', packed) or math.huge
        local listed, ends = call('ZSCORE', P .. NOTES.names, note), tonumber(call('ZSCORE', P .. NOTES.ends, note)) or math.huge
        if (not packed ~= not listed or ends ~= over) and wrong(NOTES_LISTED, note) then
            call('ZREM', P .. NOTES.names, note)
            call('ZREM', P .. NOTES.ends, note)
            if packed then
                keep_value(NOTES, note, sub(packed, 9), over < math.huge and over or nil)
            end
        end
    end
end

-- States without a job.
function check.s()
    for place = at, #ARGV do
        local b = ARGV[place]
        if call('HEXISTS', chunk(':s:', b), b) == 1 and call('HEXISTS', chunk(':j:', b), b) == 0 and wrong(HISTORY, b) then
            call('HDEL', chunk(':s:', b), b)
        end
    end
end

-- Results of jobs whose states know of none.
function check.r()
    for place = at, #ARGV do
        local b, state = ARGV[place], state_of(ARGV[place])
        if call('HEXISTS', results_of(b), b) == 1 and not (state and state[RESULT] == 1) and wrong(HISTORY, b) then
            call('HDEL', results_of(b), b)
        end
    end
end

-- Histories, by the numbers of their jobs.
function check.h()
    for place = at, #ARGV do
        local b = bid(tonumber(ARGV[place]))
        if call('EXISTS', history_of(b)) == 1 and call('HEXISTS', chunk(':s:', b), b) == 0 and wrong(HISTORY, b) then
            call('DEL', history_of(b))
        end
    end
end

-- Puts a job where it is missing.
local function check_place(b, state, set, member, score, fault)
    local there, topic = tonumber(call('ZSCORE', set, member)), state[TEXT].topic
    local known = state[STATE] ~= DELAYED or topic_named(topic).by_name[lane_name(state[PRIORITY], state[LOST])]
    if there and (not score or there == score) and (fault ~= NOWHERE or known) or not wrong(fault, b) then
        return
    elseif fault == NOWHERE then
        call('ZADD', lane(topic, state[PRIORITY], state[LOST]), 'NX', state[DUE], b)
    elseif fault == KEYLESS and not call('HGET', keys_of(topic).holders, state[TEXT].key) then
        call('HSET', keys_of(topic).holders, state[TEXT].key, b)
    else
        call('ZADD', set, score, member)
    end
end

-- A hash of jobs.
function check.j(_, name)
    local ids = call('HKEYS', P .. ':j:' .. name)
    if #ids > 0 and not call('ZSCORE', P .. ':x', name) and wrong(INDEXES, ids[1]) then
        call('ZADD', P .. ':x', floor(number(name .. '\0') / 256), name)
    end
    states_of(ids)
    for _, b in ipairs(ids) do
        local state = read(b)
        local topic = state[TEXT].topic
        if number(b) > tonumber(call('GET', P .. ':n') or 0) and wrong(IDS_GIVEN, b) then
            call('SET', P .. ':n', digits(number(b)))
        end
        if not topic_named(topic).value and wrong(TOPICS, b) then
            call('HSET', P .. ':t', topic, '')
            topics[topic] = nil
        end
        for set, place in pairs(places_of(b, state)) do
            if set ~= keys_of(topic).groups or grouped(topic) == '0' then -- else some are still to come
                check_place(b, state, set, unpack(place, 1, 3))
            end
        end
        local first = state[STATE] == RUNNING and tonumber(call('ZSCORE', P .. ':l', topic) or math.huge)
        if first and first > state[LEASE] and wrong(INDEXES, b) then
            call('ZADD', P .. ':l', 'LT', state[LEASE], topic)
        end
    end
end

-- Looks at members of a key of some kind, or at all of it, and mends what is wrong if it is told to. Returns numbers of faults, and ids, or
-- names of notes: stores/redis/verify.py names them.
function api.verify(asked)
    wrongs, mends = {}, asked.mend
    check[asked.kind](asked.kind, take())
    return wrongs
end
api.mend = api.verify
