-- Limits: as jobs/limits.py has them.
local gates = {POLL = 80000, REMEMBERED = 3600000000} -- us

-- Reads the rates that anybody asked for of late: us from one start to the next, burst, when the next start is due.
function gates.read(gate, note)
    local micros_now, latest, known = now * 1000, 0, nil
    gate.others, gate.changed = {}, false
    for every, burst, due in string.gmatch(note, '(%d+)/(%d+)=(%d+)') do
        every, burst, due = tonumber(every), tonumber(burst), tonumber(due)
        if due > micros_now - gates.REMEMBERED then
            latest = max(latest, due)
            if every == gate.every and burst == gate.burst then
                known = due
            else
                gate.others[#gate.others + 1] = {every = every, burst = burst, due = due}
            end
        end
    end
    gate.due = min(known or latest, micros_now + gate.burst * gate.every)
    gate.changed = gate.every > 0 and not known and latest > micros_now
end

function gates.pass(rate)
    local micros_now = now * 1000
    rate.due = min(max(rate.due, micros_now) + rate.every, micros_now + rate.burst * rate.every)
end

-- Has what runs of a topic kept by keys from now on. It reads all of that, once.
function gates.keep_by_keys(topic)
    local there, leases = lanes_of(topic), leases_of(topic)
    call('HSET', P .. ':p', topic, there.known .. ' k')
    lanes[topic] = nil
    for first = 0, call('ZCARD', leases) - 1, SOME do
        local running = call('ZRANGE', leases, first, first + SOME - 1)
        states_of(running)
        for _, b in ipairs(running) do
            if states[b] and states[b][KEY] then
                add(groups_of(topic), 0, states[b][KEY] .. '\0' .. b)
            end
        end
    end
    flush()
end

-- `limits` are JSON: most, per, every, burst, and the name of the note; false is none. What has lost its lease does not run.
function gates.open(topic, limits)
    if limits == '' then
        return nil
    end
    local most, per, every, burst, name = unpack(cjson.decode(limits))
    local gate = {topic = topic, most = most, per = per, every = every, burst = burst, name = name, groups = {}, full = {}}
    local note = call('HGET', P .. ':e', name)
    gates.read(gate, note and sub(note, 9) or '')
    gate.guarded = note or not most
    if most and per then
        settle_over(topic, PIECE, {})
        if not lanes_of(topic).by_keys then
            gates.keep_by_keys(topic)
        end
    end
    return gate
end

function gates.group(gate, key)
    if not gate.per then
        return ''
    end
    local first = key and string.find(key, gate.per, 1, true)
    return first and sub(key, 1, first - 1) or key
end

-- Returns how many run of a group, nil being none.
function gates.running(gate, group)
    local found = gate.groups[group]
    if not found and gate.per then
        local set, start = groups_of(gate.topic), group .. gate.per
        found = call('ZLEXCOUNT', set, '[' .. start, '(' .. start .. '\255')
            + call('ZLEXCOUNT', set, '[' .. group .. '\0', '(' .. group .. '\1') -- no key has a NUL
    end
    found = found or call('ZCOUNT', leases_of(gate.topic), beyond(now), '+inf')
    gate.groups[group] = found
    return found
end

function gates.hold(gate, until_)
    gate.again = min(gate.again or until_, until_)
    return false
end

function gates.admits(gate, key, b)
    local group, micros_now = gates.group(gate, key), now * 1000
    if gate.most and group and gates.running(gate, group) >= gate.most then
        if gate.per and b then
            gate.full[b] = group
        end
        return gates.hold(gate, micros_now + gates.POLL)
    end
    if gate.every > 0 then
        local first = gate.due - (gate.burst - 1) * gate.every
        if first > micros_now then
            return gates.hold(gate, first)
        end
        gates.pass(gate)
        for _, rate in ipairs(gate.others) do
            gates.pass(rate)
        end
        gate.changed = true
    end
    if gate.most and group then
        gate.groups[group] = gate.groups[group] + 1
    end
    gate.begun = true
    return true
end

-- Keeps what a gate has let through; returns when to ask again for what it held back, or ''. The first start writes the note, as
-- everywhere, though nothing here needs a row to lock.
function gates.shut(gate)
    if not gate then
        return ''
    end
    local texts = {}
    for _, rate in ipairs(gate.changed and {gate, unpack(gate.others)} or {}) do
        texts[#texts + 1] = rate.every > 0 and string.format('%.0f/%.0f=%.0f', rate.every, rate.burst, rate.due) or nil
    end
    if gate.changed or (gate.begun and not gate.guarded) then
        notes.set(gate.name, table.concat(texts, ','))
    end
    return gate.again and string.format('%.0f', math.ceil(gate.again / 1000)) or ''
end
