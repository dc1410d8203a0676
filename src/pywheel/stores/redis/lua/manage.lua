-- Changing jobs by hand. A change returns one of these, or the state that stood in the way.
local MADE, NOT_FOUND, HAS_CHANGED = -1, -2, -3
local TOPICS = 100 -- that one purge looks into
local STATES = {delayed = DELAYED, running = RUNNING, done = DONE, dead = DEAD, cancelled = CANCELLED}

-- Returns a job once its lease is ended, if that is over: its id, and its state, which is not kept if it has none.
local function settled(ref)
    local b = find(ref)
    if not b then
        return nil
    end
    local state = state_of(b)
    if settle_lost(b, state) then
        flush()
    end
    return b, state or state_or_new(b, 0)
end

-- Returns the due time of a job that is rescheduled or retried.
local function due_as(asked)
    return asked.delay and now + asked.delay or asked.due
end

-- Returns the outcome of a change of a job that must be delayed. If the change may be made, the results of `settled`, the due time and the
-- lane follow. `expect` is the expected due time and claims, if they matter.
local function waiting(asked)
    local b, state = settled(asked.ref)
    if not b then
        return NOT_FOUND
    end
    local due, from = state[DUE], nil
    if state[STATE] == DELAYED then
        due, from = due_of(state[TEXT].topic, b)
    end
    if asked.expect and (due ~= asked.expect[1] or state[CLAIMS] ~= asked.expect[2]) then
        return HAS_CHANGED
    end
    return state[STATE] == DELAYED and MADE or state[STATE], b, state, due, from
end

function commands.cancel(asked)
    local outcome, b, state, due, from = waiting(asked)
    if outcome ~= MADE then
        return outcome
    end
    local text = state[TEXT]
    make_history(b, state)
    new_claim(state, receipts_base())
    state[DUE], state[ATTEMPT], state[STARTED], state[TEXT] = due, 0, NO_TIME, new_texts(text.topic, text.key, text.error)
    remove(from, b)
    end_claim(b, state, CANCELLED, nil, false, state[LOST], WAS_CANCELLED, nil, now)
    return MADE
end

-- Returns a job with new fields and a new body, where given, and its new options. `fields` are JSON, or '' to drop one.
local function rewritten(job, fields, body)
    local options, size, topic = read_job(job)
    local texts = {}
    for name, value in pairs(options) do
        texts[name] = type(value) == 'number' and digits(value) or cjson.encode(value)
    end
    for name, text in pairs(fields) do
        texts[name] = text ~= '' and text or nil
    end
    local parts = {}
    for name, text in pairs(texts) do
        parts[#parts + 1] = '"' .. name .. '":' .. text
    end
    local kept = #parts > 0 and '{' .. table.concat(parts, ',') .. '}' or ''
    body = body ~= '' and sub(body, 2) or sub(job, #job - size + 1)
    job = sub(job, 1, 6) .. struct.pack('>I3c0I3c0', #topic, topic, #kept, kept) .. body
    return job, (read_job(job))
end

-- The argument behind the JSON is the body, with an r before it, or ''.
function commands.edit(asked)
    local body, outcome, b, state, due, from = take(), waiting(asked)
    if outcome ~= MADE then
        return outcome
    end
    if body ~= '' or asked.fields then
        local jobs = chunk(':j:', b)
        local job, options = rewritten(call('HGET', jobs, b), asked.fields or PLAIN, body)
        call('HSET', jobs, b, job)
        new_claim(state, receipts_base())
        state[FORGIVEN], state[PRIORITY] = state[FORGIVEN] + 1, options.priority or 0
        keep(b, state)
    end
    state[DUE] = due_as(asked) or due
    remove(from, b)
    wait_until(b, state[TEXT].topic, state[DUE], state[PRIORITY], state[LOST])
    return MADE
end

local function forget_result(b, state)
    if state[RESULT] == 1 then
        call('HDEL', chunk(':r:', b), b)
        state[RESULT] = 0
    end
end

-- Outcome: that of the change, or the holder of its key.
function commands.retry(asked)
    local b, state = settled(asked.ref)
    if not b or state[STATE] < DONE then
        return b and state[STATE] or NOT_FOUND
    end
    local topic, key = state[TEXT].topic, state[TEXT].key
    local holder = holders_of({{topic = topic, key = key, how = PLAIN}})
    holder = key and holder[topic][key]
    if holder then
        return {EXISTS, number(holder)}
    elseif key then
        call('HSET', keys_of(topic).holders, key, b)
        call('ZREM', keys_of(topic).former, with_key(key, b))
    end
    call('ZREM', keys_of(topic)[state[STATE]], b)
    state[STATE], state[FORGIVEN], state[LOST] = DELAYED, state[CLAIMS], NEVER_LOST
    forget_result(b, state)
    keep(b, state)
    wait_until(b, topic, due_as(asked), state[PRIORITY])
    return MADE
end

-- Deletes a job that is not running, and that was removed from its place.
local function forget_job(b, state)
    local topic, key = state[TEXT].topic, state[TEXT].key
    if key and call('HGET', keys_of(topic).holders, key) == b then
        call('HDEL', keys_of(topic).holders, key)
    elseif key then
        call('ZREM', keys_of(topic).former, with_key(key, b))
    end
    call('HDEL', chunk(':s:', b), b)
    call('DEL', history_of(b))
    forget_result(b, state)
    states[b] = false
    local jobs = chunk(':j:', b)
    call('HDEL', jobs, b)
    if call('EXISTS', jobs) == 0 and sub(bid(tonumber(call('GET', K.last_id))), 1, 5) ~= sub(b, 1, 5) then
        call('ZREM', K.chunks, sub(b, 1, 5)) -- the chunk of the last id stays, as it may get more jobs
    end
end

function commands.delete(asked)
    local b, state = settled(asked.ref)
    if not b or state[STATE] == RUNNING then
        return b and RUNNING or NOT_FOUND
    end
    local topic = state[TEXT].topic
    local _, from = due_of(topic, b)
    call('ZREM', state[STATE] >= DONE and keys_of(topic)[state[STATE]] or from, b)
    forget_job(b, state)
    return MADE
end

-- Arguments: id, and the claim if its result is meant; the old and the new value.
function commands.rewrite(asked)
    local old, new = take(), take()
    local b = find(asked.id)
    local key = b and chunk(asked.claim and ':r:' or ':j:', b)
    local there, start_with, has = b and call('HGET', key, b), '', nil
    if there and asked.claim then
        local state = state_of(b)
        has = state and state[STATE] == DONE and state[RESULT] == 1 and state[CLAIM] == asked.claim and there
    elseif there then
        local _, size = read_job(there)
        start_with, has = sub(there, 1, #there - size), sub(there, #there - size + 1)
    end
    if has == old then
        call('HSET', key, b, start_with .. new)
    end
    return has == old and 1 or 0
end

function commands.pause(asked)
    list_topic(asked.topic)
    local topic = topic_named(asked.topic)
    local changes = (topic.pause ~= nil) ~= asked.paused
    if changes then
        local pause, lanes = call('INCR', K.pauses), string.gsub(topic.value or '', '^%d*', '')
        call('HSET', K.topics, asked.topic, (asked.paused and digits(pause) or '') .. lanes)
        call('PUBLISH', K.bell, 'p')
        topics[asked.topic] = nil
    end
    return changes and 1 or 0
end

-- Deletes up to `limit` jobs of a topic that ended in a state by a time; returns how many, and when the first of the others ended.
local function purge_topic(topic, state, last, limit)
    local key = keys_of(topic)[state]
    local ids = call('ZRANGE', key, '-inf', last, 'BYSCORE', 'LIMIT', 0, limit)
    states_of(ids)
    for _, b in ipairs(ids) do
        forget_job(b, states[b])
    end
    each_part('ZREM', key, ids)
    return #ids, call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
end

-- Some lapsed leases are ended first, if dead jobs are purged. Without a topic, the topics come first whose first end is noted as the
-- oldest; what is noted is corrected. Outcome: the number of deleted jobs, and `last` of the next part if there may be more. A topic that
-- has no jobs left is noted half a ms later: the next part need not look again, a later purge must.
function commands.purge(asked)
    local state, left, last = STATES[asked.state], asked.limit, tonumber(asked.last) or now - asked.age
    if left > 0 then
        forget_over(NONCES, left)
        forget_over(NOTES, left)
    end
    if state == DEAD then
        settle_all_over(PIECE, {})
    end
    if state < DONE or left <= 0 then
        return {0}
    end
    local key, old, soon = ends_of(state), {asked.topic}, format('%.1f', now + 0.5)
    if not asked.topic then
        old = call('ZRANGE', key, '-inf', asked.last and last or last + 0.5, 'BYSCORE', 'LIMIT', 0, TOPICS)
        for _, topic in ipairs(call('ZRANGE', key, '+inf', '(' .. soon, 'BYSCORE', 'REV', 'LIMIT', 0, TOPICS - #old)) do
            old[#old + 1] = topic -- noted before the clock stepped back
        end
    end
    for _, topic in ipairs(old) do
        local gone, first = purge_topic(topic, state, last, left)
        if first or state == DONE then
            call('ZADD', key, 'XX', first and tonumber(first) <= now and first or soon, topic)
        else
            call('ZREM', key, topic)
        end
        left = left - gone
        if left == 0 then
            break
        end
    end
    return {asked.limit - left, (left == 0 or #old == TOPICS) and digits(min(last, now)) or nil}
end
