-- Changing jobs by hand.

-- Returns a job with a lease that is over settled: its id and state, and topic and key; the state is false without claims.
local function settled(ref)
    local b = find(ref)
    if not b then
        return nil
    end
    local state = state_of(b)
    if settle_lost(b, state) then
        flush()
    end
    if state then
        return b, state, state[TOPIC], state[KEY]
    end
    local job = call('HGET', of_job(b), b)
    return b, false, topic_of(job), (read_job(job))
end

-- Returns the same of a job that is delayed, and when it is due. `expected` is '' or its due time and claims.
local function waiting(ref, expected)
    local b, state, topic, key = settled(ref)
    if not b or (state and state[STATE] ~= DELAYED) then
        return nil
    end
    local due = tonumber(call('ZSCORE', delayed_of(topic), b))
    if expected ~= '' then
        local at, claims = string.match(expected, '^(%-?%d+) (%-?%d+)$')
        if due ~= tonumber(at) or (state and state[CLAIMS] or 0) ~= tonumber(claims) then
            return nil
        end
    end
    return b, state, topic, key, due
end

function commands.cancel(at)
    local b, state, topic, key, due = waiting(ARGV[at], ARGV[at + 1])
    if not b then
        return 0, at + 2
    end
    state = state or {DELAYED, topic, key, due, 0, 0, NEVER_LOST, false}
    make_history(b, state)
    new_claim(state)
    state[DUE], state[FORGIVEN] = due, state[FORGIVEN] + 1
    state[ATTEMPT], state[OUTCOME], state[ENDED], state[WHY] = 0, WAS_CANCELLED, now, false
    state[CLAIM], state[STARTED], state[WORKER] = state[CLAIMS], false, false
    wait_no_more(topic, b)
    finish(b, state, CANCELLED, now)
    keep(b, state)
    flush()
    return 1, at + 2
end

-- Notes the priority of a job that is new, or says so.
local function set_priority(topic, b, job)
    local _, _, _, _, priority = read_job(job)
    if priority ~= 0 then
        add_mark(topic, bit.lshift(1, priority + 9))
        call('HSET', priorities_of(topic), b, priority)
    end
end

local function move(b, topic, due)
    tell(topic, b, math.min(due, tonumber(call('ZSCORE', delayed_of(topic), b))))
    put_delayed(topic, b, due)
end

function commands.reschedule(at)
    local b, _, topic = waiting(ARGV[at], ARGV[at + 1])
    if b then
        move(b, topic, due_at(ARGV[at + 2]))
    end
    return b and 1 or 0, at + 3
end

-- Returns the live job that has a key.
local function holder_of(topic, key)
    local b = call('HGET', holders_of(topic), key)
    if b and settle_lost(b, state_of(b)) then
        flush()
        b = call('HGET', holders_of(topic), key)
    end
    return b or nil
end

local function forget_result(b, state)
    if state[RESULT] then
        call('HDEL', results_of(b), b)
        state[RESULT] = false
    end
end

function commands.retry(at)
    local b, state, topic, key = settled(ARGV[at])
    if not state or state[STATE] < DONE then
        return 0, at + 2
    end
    if key then
        local holder = holder_of(topic, key)
        if holder then
            return {EXISTS, number(holder)}, at + 2
        end
        call('HSET', holders_of(topic), key, b)
        call('ZREM', former_of(topic, key), b)
    end
    call('ZREM', finished_of(state[STATE], topic), b)
    state[STATE], state[FORGIVEN], state[LOST] = DELAYED, state[CLAIMS], NEVER_LOST
    forget_result(b, state)
    keep(b, state)
    local due = due_at(ARGV[at + 1])
    put_delayed(topic, b, due)
    tell(topic, b, due)
    return 1, at + 2
end

-- Forgets a job that is not running.
local function forget(b, state, topic, key)
    call('ZREM', state and state[STATE] >= DONE and finished_of(state[STATE], topic) or delayed_of(topic), b)
    local in_lane = lane_of(topic, b)
    if in_lane then
        call('ZREM', in_lane, b)
        call('HDEL', priorities_of(topic), b)
    end
    if key then
        if call('HGET', holders_of(topic), key) == b then
            call('HDEL', holders_of(topic), key)
        else
            call('ZREM', former_of(topic, key), b)
        end
    end
    if state then
        call('HDEL', of_state(b), b)
        call('DEL', history_of(b))
        forget_result(b, state)
    end
    states[b], changed[b] = false, nil
    call('HDEL', of_job(b), b)
    if call('EXISTS', of_job(b)) == 0 then
        local last = bid(tonumber(call('GET', P .. ':n')))
        if sub(last, 1, 5) ~= sub(b, 1, 5) then -- more jobs may come into that one
            call('ZREM', P .. ':x', sub(b, 1, 5))
        end
    end
end

function commands.delete(at)
    local b, state, topic, key = settled(ARGV[at])
    if not b or (state and state[STATE] == RUNNING) then
        return 0, at + 1
    end
    forget(b, state, topic, key)
    return 1, at + 1
end

-- ARGV[at]: id, the claim, the result that it has, and the one that it gets.
function commands.rewrite_result(at)
    local b = ARGV[at]
    local state = state_of(b)
    local has = state and state[STATE] == DONE and state[RESULT] and state[CLAIM] == tonumber(ARGV[at + 1])
    if not has or call('HGET', results_of(b), b) ~= ARGV[at + 2] then
        return 0, at + 4
    end
    call('HSET', results_of(b), b, ARGV[at + 3])
    return 1, at + 4
end

-- ARGV[at]: id, the body that the job has, and the one that it gets.
function commands.rewrite(at)
    local b, old = ARGV[at], ARGV[at + 1]
    local job = call('HGET', of_job(b), b)
    local _, _, _, size = false, nil, nil, -1
    if job then
        _, _, _, size = read_job(job)
    end
    if size ~= #old or sub(job, #job - size + 1) ~= old then
        return 0, at + 3
    end
    call('HSET', of_job(b), b, sub(job, 1, #job - size) .. ARGV[at + 2])
    return 1, at + 3
end

function commands.pause(at)
    local topic, paused = ARGV[at], ARGV[at + 1] == '1'
    local before = call('HGET', P .. ':t', topic)
    local was = before and before ~= ''
    local changes = (was or false) ~= paused
    if changes then
        local stirred = call('INCR', P .. ':y')
        call('HSET', P .. ':t', topic, paused and stirred or '')
        call('PUBLISH', P .. ':bell', 'pause')
    elseif not before then
        call('HSET', P .. ':t', topic, '')
    end
    return changes and 1 or 0, at + 2
end

-- ARGV[at]: state, age, limit, and the topic with a t before it, or ''.
function commands.purge(at)
    local of, until_, left = tonumber(ARGV[at]), now - tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    local topics = ARGV[at + 3] == '' and call('HKEYS', P .. ':t') or {sub(ARGV[at + 3], 2)}
    if left > 0 then
        forget_nonces(left)
        notes.forget(left)
    end
    if of == DEAD then
        settle_all_over()
    end
    local gone = 0
    if of < DONE then
        return 0, at + 4
    end
    for _, topic in ipairs(topics) do
        while left > 0 do
            local some = math.min(left, 500)
            local ids = call('ZRANGE', finished_of(of, topic), '-inf', until_, 'BYSCORE', 'LIMIT', 0, some)
            states_of(ids)
            for _, b in ipairs(ids) do
                forget(b, states[b], topic, states[b][KEY])
            end
            gone, left = gone + #ids, left - #ids
            if #ids < some then
                break
            end
        end
    end
    return gone, at + 4
end
