-- Claims, and the limits that hold some back: the same rules as in jobs/limits.py.
local LATE = 100 -- leases that one claim ends
local POLL, REMEMBERED = 80000, 3600000000 -- us

-- ---- limits -----------------------------------------------------------------------------------------------------------

local function pass(rate)
    local micros_now = now * 1000
    rate.due = min(max(rate.due, micros_now) + rate.every, micros_now + rate.burst * rate.every)
end

-- Returns a gate: the limits, and the rates that were used lately, each with the time (us) at which its next start is due. A new rate has
-- no record of earlier starts. It assumes the latest start that any rate has noted, capped at its own burst. Jobs that have lost their
-- lease do not count as running.
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
    -- A cap is written, though nothing begins: counted anew from each later moment, it would never be reached.
    gate.changed = gate.every > 0 and (known or latest) > (known and gate.due or micros_now)
    gate.guarded = note or not limits.most
    if limits.most and limits.per then
        settle_over(topic, LATE, {})
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

-- Returns the number of running jobs of a group.
local function running_of(gate, group)
    local found = gate.groups[group]
    if not found and gate.limits.per then
        local groups, start = keys_of(gate.topic).groups, group .. gate.limits.per
        found = call('ZLEXCOUNT', groups, '[' .. start, '(' .. start .. '\255')
            + call('ZLEXCOUNT', groups, '[' .. group .. '\0', '(' .. group .. '\1') -- no key has a NUL
    end
    found = found or call('ZCOUNT', keys_of(gate.topic).leases, beyond(now), '+inf')
    gate.groups[group] = found
    return found
end

local function hold_back(gate, until_)
    gate.again = min(gate.again or until_, until_)
    return false
end

-- Whether a job may begin; if so, it is counted.
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

-- Stores the starts that a gate has admitted. The first start writes the note, as in all stores, though no row to lock is needed here.
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

-- Orders waiting jobs as they are claimed; jobs that are not due come last.
local function comes_first(one, other)
    local early, rank, other_rank = one[SCORE] > now, one[SOURCE].priority, other[SOURCE].priority
    if early ~= (other[SCORE] > now) then
        return not early
    elseif rank ~= other_rank and not early then
        return rank > other_rank
    end
    return one[SCORE] < other[SCORE] or (one[SCORE] == other[SCORE] and one[ID] < other[ID])
end

-- Returns the first `most` due jobs of a topic, in order; with `no_suspects` without suspects. `after` is {due, id, priority or nil}.
local function look(topic, most, after, without, no_suspects)
    local found, sources, lanes = {}, {}, topic_named(topic)
    for place, one in ipairs(lanes) do
        if #found >= most then
            break
        end
        local priority, key, suspects = unpack(one)
        local last = after and after.priority or priority
        if priority <= last and not (no_suspects and suspects) then
            local from = after and priority == last and rank_of(key, after.due, after.id, true) or 0
            sources[#sources + 1] = {key = key, from = from, priority = priority, suspects = suspects}
        end
        local next_lane = lanes[place + 1] -- if it has the same priority, one of the two has the suspects
        if not next_lane or next_lane[1] ~= priority then
            for _, job in ipairs(merged(sources, most - #found, now, false, without)) do
                found[#found + 1] = job
            end
            sources = {}
        end
    end
    return found
end

-- Returns the due jobs that a claim looks at, in order, with no more suspects than it may take, and the next due time, or false.
local function first_due_of(topic, most, suspects, after, without)
    local found, tried = look(topic, most, after, without), {}
    local full = #found >= most
    for _, one in ipairs(full and found or {}) do
        tried[#tried + 1] = one[SOURCE].suspects and one or nil
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

-- Returns the jobs among these ids that wait in a topic, in order. Ends their leases that are over.
local function waiting_of(topic, ids)
    local found = {}
    for place, lease in ipairs(of_each('ZMSCORE', keys_of(topic).leases, ids)) do
        if lease then
            settle_lost(ids[place], state_of(ids[place]))
        end
    end
    flush()
    for _, one in ipairs(topic_named(topic)) do
        local source = {priority = one[1], key = one[2]}
        for place, due in ipairs(of_each('ZMSCORE', one[2], ids)) do
            found[#found + 1] = due and {tonumber(due), ids[place], source} or nil
        end
    end
    table.sort(found, comes_first)
    return found
end

-- ---- claims -----------------------------------------------------------------------------------------------------------

-- Claims a waiting job.
local function start(one, state, asked, begins, options)
    local b, ttr, most = one[ID], options.ttr, options.max_attempts
    make_history(b, state)
    new_claim(state, asked.base)
    local attempt, text = state[CLAIMS] - state[FORGIVEN], state[TEXT]
    local backoff = asked.backoff[min(max(attempt, 1), #asked.backoff)] or 0
    if backoff > 0 and asked.jitter > 0 then
        backoff = floor(backoff * (1 + asked.jitter * (2 * math.random() - 1)) + 0.5)
    end
    ttr, most = ttr and ttr ~= 0 and ttr or asked.ttr, most and most ~= 0 and most or asked.max_attempts
    state[STATE], state[DUE], state[ATTEMPT], state[BEGUN] = RUNNING, one[SCORE], attempt, begins and 1 or 0
    state[LEASE] = now + (begins and ttr + asked.slack or asked.hold)
    state[MOST_ATTEMPTS], state[BACKOFF], state[STARTED] = most, max(backoff, 0), now
    if text.worker ~= asked.worker or text.why then
        state[TEXT] = new_texts(text.topic, text.key, text.error, false, asked.worker)
    end
    remove(one[SOURCE].key, b)
    lease_until(b, state)
    if text.key then
        add(keys_of(asked.topic).groups, 0, with_key(text.key, b))
    end
    keep(b, state)
end

-- Outcome: whether the topic is paused, the number of jobs that begin, the time to ask again for jobs that limits hold back, or '', the
-- next due time, or false; the jobs left: id, due time, priority, and the full group that holds each back; and the claimed jobs.
function commands.claim(asked)
    local topic, some, found, coming = asked.topic, ids_of(take()), {}, false
    asked.base = receipts_base()
    if asked.jitter > 0 then
        math.randomseed(micros % 4294967296)
    end
    if asked.reserves then
        settle_over(topic, LATE, {}) -- the client has ended other leases before, by calls of their own
    end
    local asks = is_open(topic) and (asked.begin > 0 or not asked.reserves)
    if asks and asked.by_ids then
        found = waiting_of(topic, some)
    elseif asks then
        local without = {}
        for _, b in ipairs(some) do
            without[b] = true
        end
        found, coming = first_due_of(topic, asked.limit, asked.suspects, asked.after, without)
    end
    local gate = asked.limits and asks and open_gate(topic, asked.limits)
    local suspects, bytes, ids, jobs = asked.suspects, asked.bytes, {}, {}
    for place = 1, #found do
        ids[place] = found[place][ID]
    end
    states_of(ids)
    local text = new_texts(topic, false, false, false, asked.worker)
    local taken, left, receipts, begun, full = {}, {}, {}, 0, false
    for place = 1, #found do
        local one, b = found[place], ids[place]
        local state = states[b]
        local lost = state and state[LOST] or NEVER_LOST
        local leave = full or one[SCORE] > now or ((gate or lost ~= NEVER_LOST) and begun >= asked.begin)
            or (lost == LOST_BEGUN and suspects <= 0)
        if not leave then
            if not jobs[b] then -- a few are read at a time: some may be large
                values(':j:', {unpack(ids, place, min(place + 63, #ids))}, jobs)
            end
            local options, size = read_job(jobs[b])
            full = bytes and size > bytes and #receipts >= 2 * asked.least
            leave = full or (gate and not admits(gate, options.key, b))
            if not leave then
                local key, begins = options.key, begun < asked.begin
                state = state or state_of_new(options, one[SCORE], key and new_texts(topic, key, false, false, asked.worker) or text)
                start(one, state, asked, begins, options)
                deliver(taken, b, state, jobs[b])
                receipts[#receipts + 1], receipts[#receipts + 2] = b, state[CLAIMS]
                bytes, begun = bytes and bytes - size, begun + (begins and 1 or 0)
                suspects = suspects - (lost == LOST_BEGUN and 1 or 0)
            end
        end
        if leave and not asked.reserves then
            local size = #left
            left[size + 1], left[size + 2], left[size + 3] = b, one[SCORE], one[SOURCE].priority
            left[size + 4] = gate and gate.full[b] or false
        end
    end
    local again = gate and gate.again and digits(math.ceil(gate.again / 1000)) or ''
    if gate then
        shut(gate)
    end
    local paused = topic_named(topic).pause and 1 or 0
    coming = coming and digits(coming)
    return {paused, begun, again, coming, left, taken},
        {paused, begun, '', #left > 0 and digits(now) or coming, {}, claimed = receipts}
end

-- ---- queries of workers -------------------------------------------------------------------------------------------------

-- Returns the first due jobs of a topic, behind a position: id, due time, and priority of each.
function api.first_due(asked)
    local found = is_open(asked.topic) and look(asked.topic, asked.limit, asked.after, {}) or {}
    for place, one in ipairs(found) do
        found[place] = {one[ID], digits(one[SCORE]), one[SOURCE].priority}
    end
    return found
end

-- Returns for each topic the due time of its first delayed job; false if there is none, or, unless `paused` is set, if it is paused.
function api.next_dues(asked)
    local found = {}
    for place, topic in ipairs(asked.topics) do
        local first = (asked.paused or is_open(topic)) and first_due(topic, '-inf')
        found[place] = first and digits(first) or false
    end
    return found
end
