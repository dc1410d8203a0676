-- Limits: as jobs/limits.py has them. What runs of a topic with limits stands in :u:<topic>, by the end of its lease.
local POLL = 80000 -- us

local function running_of(topic)
    return P .. ':u:' .. topic
end

-- Notes when a claim's lease ends, and that it has ended.
local function lease_until(b, state)
    add(LEASES, state[LEASE], b)
    if mark_of(state[TOPIC]) >= LIMITED then
        add(running_of(state[TOPIC]), state[LEASE], b)
    end
end

local function count_running(topic)
    if mark_of(topic) >= LIMITED then
        return
    end
    add_mark(topic, LIMITED)
    local running = call('ZRANGE', LEASES, '(' .. string.format('%.17g', now), '+inf', 'BYSCORE')
    states_of(running)
    for _, b in ipairs(running) do
        local state = state_of(b)
        if state and state[TOPIC] == topic then
            call('ZADD', running_of(topic), state[LEASE], b)
        end
    end
end

local function group_of(gate, key)
    if not gate.per then
        return ''
    end
    local first = key and string.find(key, gate.per, 1, true)
    return first and sub(key, 1, first - 1) or key
end

-- `limits` are JSON: most, per, every, burst, and the name of the note; false is none.
local function gate_of(topic, limits)
    if limits == '' then
        return nil
    end
    local most, per, every, burst, name = unpack(cjson.decode(limits))
    local gate = {most = most, per = per, every = every, burst = burst, name = name, groups = {}, again = false}
    local note = call('HGET', P .. ':e', name)
    gate.before = note and tonumber(sub(note, 9))
    gate.due = math.min(gate.before or 0, now * 1000 + burst * every)
    if most then
        count_running(topic)
        local running = call('ZRANGE', running_of(topic), '(' .. string.format('%.17g', now), '+inf', 'BYSCORE')
        if per then
            states_of(running)
        end
        for _, b in ipairs(running) do
            local group = group_of(gate, per and state_of(b)[KEY])
            if group then
                gate.groups[group] = (gate.groups[group] or 0) + 1
            end
        end
    end
    return gate
end

local function hold(gate, until_)
    gate.again = math.min(gate.again or until_, until_)
    return false
end

local function admits(gate, key)
    local group, micros_now = group_of(gate, key), now * 1000
    local running = group and gate.groups[group] or 0
    if gate.most and group and running >= gate.most then
        return hold(gate, micros_now + POLL)
    end
    if gate.every > 0 then
        local first = gate.due - (gate.burst - 1) * gate.every
        if first > micros_now then
            return hold(gate, first)
        end
        gate.due = math.max(gate.due, micros_now) + gate.every
    end
    if group then
        gate.groups[group] = running + 1
    end
    return true
end

-- Keeps what a gate has let through; returns when to ask again for what it held back, or ''.
local function shut(gate)
    if not gate then
        return ''
    end
    if gate.due ~= gate.before then
        call('HSET', P .. ':e', gate.name, struct.pack('>d', math.huge) .. string.format('%.0f', gate.due))
        call('ZADD', P .. ':c', 0, gate.name)
    end
    return gate.again and string.format('%.0f', math.ceil(gate.again / 1000)) or ''
end
