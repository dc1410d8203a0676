-- Claims, and the limits that hold some back: as jobs/limits.py has them.
local LOOKED_PAST = 1000 -- jobs/limits.py
local POLL, REMEMBERED = 80000, 3600000000 -- us

-- ---- limits -----------------------------------------------------------------------------------------------------------

local function pass(rate)
    local micros_now = now * 1000
    rate.due = min(max(rate.due, micros_now) + rate.every, micros_now + rate.burst * rate.every)
end

-- Returns what limits let through: a gate, which has the limits, and the rates that anybody asked for of late, with when the next start
-- of each is due, in us. A new rate has no record of earlier starts. It assumes the latest start that any rate has noted, capped at its
-- own burst. What has lost its lease does not run.
local function open_gate(topic, limits)
    local gate = {topic = topic, limits = limits, groups = {}, full = {}, others = {}, every = limits.every, burst = limits.burst}
    local micros_now, latest, known, note = now * 1000, 0, nil, kept(NOTES, limits.note)
    for every, burst, due in string.gmatch(note or '', '(%d+)/(%d+)=(%d+)') do
        local rate = {every = tonumber(every), burst = tonumber(burst), due = tonumber(due)}
        if rate.due > micros_now - REMEMBERED then
            latest = max(latest, rate.due)
            if rate.every == gate.every and rate.burst == gate.burst then
                known = rate.due
            else
                gate.others[#gate.others + 1] = rate
            end
        end
    end
    gate.due = min(known or latest, micros_now + gate.burst * gate.every)
    gate.changed = gate.every > 0 and not known and latest > micros_now
    gate.guarded = note or not limits.most
    if limits.most and limits.per then
        settle_over(topic, PIECE, {})
    end
    return gate
end

-- Returns the group of a key, nil without one: such a job is not limited.
local function group_of(gate, key)
    if not gate.limits.per then
        return ''
    end
    local first = key and string.find(key, gate.limits.per, 1, true)
    return first and sub(key, 1, first - 1) or key or nil
end

-- Returns how many run of a group.
local function running_of(gate, group)
    local found = gate.groups[group]
    if not found and gate.limits.per then
        local set, start = groups_of(gate.topic), group .. gate.limits.per
        found = call('ZLEXCOUNT', set, '[' .. start, '(' .. start .. '\255')
            + call('ZLEXCOUNT', set, '[' .. group .. '\0', '(' .. group .. '\1') -- no key has a NUL
    end
    found = found or call('ZCOUNT', leases_of(gate.topic), beyond(now), '+inf')
    gate.groups[group] = found
    return found
end

local function hold_back(gate, until_)
    gate.again = min(gate.again or until_, until_)
    return false
end

-- Whether a job may begin; then it counts.
local function admits(gate, key, b)
    local most, group, micros_now = gate.limits.most, group_of(gate, key), now * 1000
    if most and group and running_of(gate, group) >= most then
        gate.full[b] = gate.limits.per and group
        return hold_back(gate, micros_now + POLL)
    end
    if gate.every > 0 then
        local first = gate.due - (gate.burst - 1) * gate.every
        if first > micros_now then
            return hold_back(gate, first)
        end
        pass(gate)
        for _, rate in ipairs(gate.others) do
            pass(rate)
        end
        gate.changed = true
    end
    if most and group then
        gate.groups[group] = gate.groups[group] + 1
    end
    gate.begun = true
    return true
end

-- Keeps what a gate has let through. The first start writes the note, as everywhere, though nothing here needs a row to lock.
local function shut(gate)
    local texts = {}
    for _, rate in ipairs(gate.changed and {gate, unpack(gate.others)} or {}) do
        texts[#texts + 1] = rate.every > 0 and digits(rate.every) .. '/' .. digits(rate.burst) .. '=' .. digits(rate.due) or nil
    end
    if gate.changed or (gate.begun and not gate.guarded) then
        keep_value(NOTES, gate.limits.note, table.concat(texts, ','))
    end
end

-- ---- what is due ------------------------------------------------------------------------------------------------------

-- What waits is {id, due time, priority, lane, whether it is a suspect, the job itself once it was read}.
local ID, AT, RANK, LANE, SUSPECTED, JOB = 1, 2, 3, 4, 5, 6

-- Orders them as they are claimed; those that are not due come last.
local function comes_first(one, other)
    local early = one[AT] > now
    if early ~= (other[AT] > now) then
        return not early
    elseif one[RANK] ~= other[RANK] and not early then
        return one[RANK] > other[RANK]
    end
    return one[AT] < other[AT] or (one[AT] == other[AT] and one[ID] < other[ID])
end

-- Appends due jobs of a lane until so many were found, behind a position if there is one.
local function look_in_lane(found, one, enough, after, without)
    local priority, key, suspects = unpack(one)
    local rank = after and rank_of(key, after.due, after.id, true) or 0
    while #found < enough do
        local some = enough - #found
        local part = call('ZRANGE', key, rank, rank + some - 1, 'WITHSCORES')
        for place = 1, #part, 2 do
            local due = tonumber(part[place + 1])
            if due > now then
                return
            elseif not without[part[place]] then
                found[#found + 1] = {part[place], due, priority, key, suspects}
            end
        end
        if #part < 2 * some then
            return
        end
        rank = rank + some
    end
end

-- Returns the first `most` due jobs of a topic, in order; without suspects if told. `after` is {due, id, priority or nil}.
local function look(topic, most, after, without, no_suspects)
    local found, before, last = {}, 0, nil -- `before` have a higher priority: one is in two lanes, with suspects
    for _, one in ipairs(topic_named(topic)) do
        local priority = one[1]
        local behind = after and (not after.priority or after.priority == priority) and after or nil
        if priority ~= last then
            before, last = #found, priority
        end
        if before < most and not (after and after.priority and priority > after.priority) and not (no_suspects and one[3]) then
            local first = #found
            look_in_lane(found, one, first + most - before, behind, without)
            if first > before and #found > first then
                table.sort(found, comes_first)
                for place = #found, most + 1, -1 do
                    found[place] = nil
                end
            end
        end
    end
    return found
end

-- Returns the due jobs that a claim looks at, in order, no more suspects than it may take, and when the next one is due, or false.
local function first_due_of(topic, most, suspects, after, without)
    local found, tried = look(topic, most, after, without), {}
    local full = #found >= most
    for _, one in ipairs(full and found or {}) do
        tried[#tried + 1] = one[SUSPECTED] and one or nil
    end
    if #tried > suspects then
        most = max(most - suspects, 1)
        found = look(topic, most, after, without, true)
        full = #found >= most
        for _, one in ipairs(tried) do
            found[#found + 1] = one
        end
        table.sort(found, comes_first)
    end
    return found, full and now or first_due(topic, beyond(now)) or false
end

-- Appends those of some jobs that wait in a topic; returns the others.
local function look_for(found, topic, ids)
    for _, one in ipairs(topic_named(topic)) do
        local others = {}
        for place, due in ipairs(scores(one[2], ids)) do
            if due then
                found[#found + 1] = {ids[place], tonumber(due), one[1], one[2], one[3]}
            else
                others[#others + 1] = ids[place]
            end
        end
        ids = others
    end
    return ids
end

-- Returns those of some jobs that wait in a topic, in order.
local function waiting_of(topic, ids)
    local found, over = {}, {}
    local others = look_for(found, topic, ids)
    for place, lease in ipairs(scores(leases_of(topic), others)) do
        local b = others[place]
        over[#over + 1] = lease and settle_lost(b, state_of(b)) and b or nil
    end
    if #over > 0 then
        flush()
        look_for(found, topic, over)
    end
    table.sort(found, comes_first)
    return found
end

-- ---- claims -----------------------------------------------------------------------------------------------------------

local function backoff_of(asked, attempt)
    local delay = asked.backoff[min(max(attempt, 1), #asked.backoff)] or 0
    if delay > 0 and asked.jitter > 0 then
        delay = floor(delay * (1 + asked.jitter * (2 * math.random() - 1)) + 0.5)
    end
    return max(delay, 0)
end

-- Claims a job that waits.
local function start(one, asked, begins, options)
    local b, key, ttr, most = one[ID], options.key, options.ttr, options.max_attempts
    local state = states[b] or state_of_new(asked.topic, options, one[AT])
    make_history(b, state)
    new_claim(state, asked.base)
    local attempt = state[CLAIMS] - state[FORGIVEN]
    ttr, most = ttr and ttr ~= 0 and ttr or asked.ttr, most and most ~= 0 and most or asked.max_attempts
    state[STATE], state[DUE], state[ATTEMPT], state[BEGUN] = RUNNING, one[AT], attempt, begins and 1 or 0
    state[LEASE] = now + (begins and ttr + asked.slack or asked.hold)
    state[MOST_ATTEMPTS], state[BACKOFF], state[STARTED], state[WORKER] = most, backoff_of(asked, attempt), now, asked.worker
    remove(one[LANE], b)
    lease_until(b, state)
    if key then
        add(groups_of(asked.topic), 0, key .. '\0' .. b)
    end
    keep(b, state)
    return state
end

-- Reads jobs before they are claimed, a few at a time: some may be large.
local function with_job(found, place)
    if not found[place][JOB] then
        local ids = {}
        for next_one = place, min(place + 63, #found) do
            ids[#ids + 1] = found[next_one][ID]
        end
        for offset, job in ipairs(values(':j:', ids)) do
            found[place + offset - 1][JOB] = job
        end
    end
    return found[place][JOB]
end

-- Returns what a claim looks at, and when the next job is due, or false.
local function found_for(asked, limited)
    if not is_open(asked.topic) then
        return {}, false
    elseif asked.by_ids then
        return waiting_of(asked.topic, ids_of(asked.ids)), false
    end
    local without = {}
    for _, b in ipairs(ids_of(asked.without)) do
        without[b] = true
    end
    local limit = bounded(asked.limit)
    return first_due_of(asked.topic, limited and max(limit, LOOKED_PAST * asked.reserves) or limit, asked.suspects, asked.after, without)
end

-- Outcome: whether the topic is paused, how many have begun, when to ask again for what limits hold back, or '', when the next one is due,
-- or false; those that are left: id, due time, priority, and the full group that holds each back; and those that are claimed.
function commands.claim()
    local asked = take_json()
    asked.ids, asked.without = take(), take()
    asked.base = receipts_base()
    asked.suspects = max(asked.suspects, 0)
    if asked.after then
        asked.after.id = bid(asked.after.id)
    end
    if asked.jitter > 0 then
        math.randomseed(micros % 4294967296)
    end
    if asked.reserves == 1 then
        settle_over(asked.topic, PIECE, {}) -- the client has ended others before, by calls of their own
    end
    local found, coming = found_for(asked, asked.limits)
    local gate, suspects, bytes, ids = asked.limits and #found > 0 and open_gate(asked.topic, asked.limits), asked.suspects, asked.bytes, {}
    for place, one in ipairs(found) do
        ids[place] = one[ID]
    end
    states_of(ids)
    local taken, left, receipts, begun, full = {}, {}, {}, 0, false
    for place, one in ipairs(found) do
        local b, state = one[ID], states[one[ID]]
        local lost = state and state[LOST] or NEVER_LOST
        local leave = full or one[AT] > now
            or ((gate or lost ~= NEVER_LOST) and (begun >= asked.begin or (lost == LOST_BEGUN and suspects <= 0)))
        if not leave then
            local job = with_job(found, place)
            local options, size = read_job(job)
            full = bytes and size > bytes and #receipts >= 2 * asked.least
            leave = full or (gate and not admits(gate, options.key, b))
            if not leave then
                local begins = begun < asked.begin
                state = start(one, asked, begins, options)
                deliver(taken, b, state, job)
                receipts[#receipts + 1], receipts[#receipts + 2] = b, state[CLAIMS]
                bytes, begun = bytes and bytes - size, begun + (begins and 1 or 0)
                suspects = suspects - (lost == LOST_BEGUN and 1 or 0)
            end
        end
        if leave and asked.reserves == 0 then
            local size = #left
            left[size + 1], left[size + 2], left[size + 3] = b, one[AT], one[RANK]
            left[size + 4] = gate and gate.full[b] or false
        end
    end
    local again = gate and gate.again and digits(math.ceil(gate.again / 1000)) or ''
    if gate then
        shut(gate)
    end
    local paused = topic_named(asked.topic).pause and 1 or 0
    coming = coming and digits(coming)
    return {paused, begun, again, coming, left, taken},
        {paused, begun, '', #left > 0 and digits(now) or coming, {}, claimed = receipts}
end

-- ---- what workers ask ---------------------------------------------------------------------------------------------------

local function shown(found)
    for place, one in ipairs(found) do
        found[place] = {one[ID], digits(one[AT]), one[RANK]}
    end
    return found
end

-- Returns the first due jobs of a topic: id, due time, and priority of each.
function api.first_due(asked)
    return shown(is_open(asked.topic) and look(asked.topic, asked.limit, nil, {}) or {})
end

-- Returns the same of those of some jobs that wait; asked for are their ids, by topic.
function api.dues(asked)
    local found = {}
    for topic, ids in pairs(asked.topics) do
        for place, id in ipairs(ids) do
            ids[place] = bid(id)
        end
        look_for(found, topic, ids)
    end
    return shown(found)
end

-- Returns for each topic when its first delayed job is due, false if there is none, or if it is paused and that matters.
function api.next_dues(asked)
    local found = {}
    for place, topic in ipairs(asked.topics) do
        local first = (asked.paused or is_open(topic)) and first_due(topic, '-inf')
        found[place] = first and digits(first) or false
    end
    return found
end
