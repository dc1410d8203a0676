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

local rates = {REMEMBERED = 3600000000} -- us

-- Rates that anybody asked for of late, as text: us from one start to the next, burst, when the next start is due.
function rates.read(gate, note)
    local micros_now, latest, known = now * 1000, 0, nil
    gate.others, gate.changed = {}, false
    if string.find(note, '^%d+$') then -- as older ones were
        note = '0/0=' .. note
    end
    for every, burst, due in string.gmatch(note, '(%d+)/(%d+)=(%d+)') do
        every, burst, due = tonumber(every), tonumber(burst), tonumber(due)
        if due > micros_now - rates.REMEMBERED then
            latest = math.max(latest, due)
            if every == gate.every and burst == gate.burst then
                known = due
            else
                gate.others[#gate.others + 1] = {every = every, burst = burst, due = due}
            end
        end
    end
    gate.due = math.min(known or latest, micros_now + gate.burst * gate.every)
    gate.changed = gate.every > 0 and not known and latest > micros_now
end

function rates.pass(rate)
    local micros_now = now * 1000
    rate.due = math.min(math.max(rate.due, micros_now) + rate.every, micros_now + rate.burst * rate.every)
end

function rates.text(rate)
    return string.format('%.0f/%.0f=%.0f', rate.every, rate.burst, rate.due)
end

-- `limits` are JSON: most, per, every, burst, and the name of the note; false is none.
local function gate_of(topic, limits)
    if limits == '' then
        return nil
    end
    local most, per, every, burst, name = unpack(cjson.decode(limits))
    local gate = {most = most, per = per, every = every, burst = burst, name = name, groups = {}, full = {}, again = false}
    local note = call('HGET', P .. ':e', name)
    rates.read(gate, note and sub(note, 9) or '')
    gate.guarded = note or not most
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

local function admits(gate, key, b)
    local group, micros_now = group_of(gate, key), now * 1000
    local running = group and gate.groups[group] or 0
    if gate.most and group and running >= gate.most then
        if gate.per and b then
            gate.full[b] = group
        end
        return hold(gate, micros_now + POLL)
    end
    if gate.every > 0 then
        local first = gate.due - (gate.burst - 1) * gate.every
        if first > micros_now then
            return hold(gate, first)
        end
        rates.pass(gate)
        for _, rate in ipairs(gate.others) do
            rates.pass(rate)
        end
        gate.changed = true
    end
    if group then
        gate.groups[group] = running + 1
    end
    gate.begun = true
    return true
end

-- Keeps what a gate has let through; returns when to ask again for what it held back, or ''.
local function shut(gate)
    if not gate then
        return ''
    end
    if gate.changed then
        local texts = {rates.text(gate)}
        for _, rate in ipairs(gate.others) do
            if rate.every > 0 then
                texts[#texts + 1] = rates.text(rate)
            end
        end
        notes.set(gate.name, table.concat(texts, ','))
    elseif gate.begun and not gate.guarded then -- as everywhere, though scripts need no row to lock
        notes.set(gate.name, '')
    end
    return gate.again and string.format('%.0f', math.ceil(gate.again / 1000)) or ''
end
