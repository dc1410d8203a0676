-- Claims. ARGV[at]: topic, worker, ttr, max_attempts, jitter, slack, hold, limits or '', how many backoffs, and these.
local function terms_at(at)
    local terms, some = {
        topic = ARGV[at], worker = ARGV[at + 1], ttr = tonumber(ARGV[at + 2]), most = tonumber(ARGV[at + 3]),
        jitter = tonumber(ARGV[at + 4]), slack = tonumber(ARGV[at + 5]), hold = tonumber(ARGV[at + 6]), limits = ARGV[at + 7],
        backoff = {}, base = tonumber(call('HGET', P .. ':run', 'base') or 0),
    }, tonumber(ARGV[at + 8])
    for place = 1, some do
        terms.backoff[place] = tonumber(ARGV[at + 8 + place])
    end
    if terms.jitter > 0 then
        math.randomseed(micros % 4294967296)
    end
    return terms, at + 9 + some
end

local function backoff_of(terms, attempt)
    local delay = terms.backoff[min(max(attempt, 1), #terms.backoff)] or 0
    if delay > 0 and terms.jitter > 0 then
        delay = floor(delay * (1 + terms.jitter * (2 * math.random() - 1)) + 0.5)
    end
    return max(delay, 0)
end

-- Receipts given out before a restart that lost some are never given out again: claims go on from the next thousand.
local function new_claim(state, base)
    if state[CLAIMS] < base then
        state[FORGIVEN], state[CLAIMS] = state[FORGIVEN] + base - state[CLAIMS], base
    end
    state[CLAIMS] = state[CLAIMS] + 1
end

-- Claims a job that waits in a lane; appends to `reply` what the worker gets of it.
local function start(b, job, due, from, terms, begun, reply)
    local key, ttr, most, _, priority = read_job(job)
    local state = states[b] or state_of_new(terms.topic, key, due, priority)
    make_history(b, state)
    new_claim(state, terms.base)
    local attempt = state[CLAIMS] - state[FORGIVEN]
    ttr, most = ttr and ttr ~= 0 and ttr or terms.ttr, most and most ~= 0 and most or terms.most
    state[STATE], state[DUE], state[ATTEMPT], state[BEGUN] = RUNNING, due, attempt, begun and 1 or 0
    state[LEASE] = now + (begun and ttr + terms.slack or terms.hold)
    state[MOST], state[BACKOFF], state[STARTED], state[WORKER] = most, backoff_of(terms, attempt), now, terms.worker
    remove(from, b)
    lease_until(b, state)
    if key and lanes_of(terms.topic).by_keys then
        add(groups_of(terms.topic), 0, key .. '\0' .. b)
    end
    keep(b, state)
    local size = #reply
    reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = b, due, state[CLAIMS], attempt
    reply[size + 5], reply[size + 6], reply[size + 7], reply[size + 8] = state[LEASE], state[LOST], state[ERROR], job
end

-- What is kept of a claim in case it is asked for again: no bodies, but where they are.
local function receipts_of(reply)
    local kept = {}
    for place = 1, #reply, 8 do
        kept[#kept + 1], kept[#kept + 2] = reply[place], reply[place + 2]
    end
    return kept
end

-- Returns the same claims again, as far as they still hold.
local function claimed_again(kept, reply)
    for place = 1, #kept, 2 do
        local b, state = kept[place], state_of(kept[place])
        if state and state[STATE] == RUNNING and state[CLAIMS] == kept[place + 1] then
            for _, value in ipairs({b, state[DUE], state[CLAIMS], state[ATTEMPT], state[LEASE], state[LOST], state[ERROR],
                call('HGET', chunk(':j:', b), b)}) do
                reply[#reply + 1] = value
            end
        end
    end
    return reply
end

-- What waits is handled as {id, due time, priority, lane, whether it is a suspect, the job itself once it was read}.
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

-- Appends up to `most` due jobs of a lane, behind a position if there is one.
local function look_in_lane(found, one, most, after, without)
    local key = one[3]
    local rank, enough = after and rank_of(key, after[1], after[2], true) or 0, #found + most
    while #found < enough do
        local some = enough - #found
        local part = call('ZRANGE', key, rank, rank + some - 1, 'WITHSCORES')
        for place = 1, #part, 2 do
            local due = tonumber(part[place + 1])
            if due > now then
                return
            elseif not without[part[place]] then
                found[#found + 1] = {part[place], due, one[2], key, one[4]}
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
    local found, before = {}, nil -- `before` holds what comes first: with suspects the same priority is in two lanes
    local there = lanes_of(topic)
    for place, one in ipairs(there) do
        local behind = after and (not after[3] or after[3] == one[2]) and after or nil
        if place == 1 or there[place - 1][2] ~= one[2] then
            before = #found
        end
        if before < most and not (after and after[3] and one[2] > after[3]) and not (no_suspects and one[4]) then
            local first = #found
            look_in_lane(found, one, most - before, behind, without)
            if first > before and #found > first then
                table.sort(found, comes_first)
                for last = #found, most + 1, -1 do
                    found[last] = nil
                end
            end
        end
    end
    return found
end

-- Returns the due jobs that a claim without ids looks at, in order, and when the next one is due, or false.
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
    for _, one in ipairs(lanes_of(topic)) do
        local others = {}
        for place, due in ipairs(scores(one[3], ids)) do
            if due then
                found[#found + 1] = {ids[place], tonumber(due), one[2], one[3], one[4]}
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

-- Reads the bodies of jobs before they are claimed, a few at a time: some may be large.
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

-- Then: limit, bytes or '', least.
function commands.reserve(at)
    local terms, place = terms_at(at)
    local topic, limit, most, least = terms.topic, tonumber(ARGV[place]), tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
    local reply, found, gate = {}, {}, nil
    settle_over(topic, max(limit, PIECE), {})
    if limit > 0 and call('HGET', P .. ':t', topic) == '' then
        gate = gates.open(topic, terms.limits)
        found = look(topic, gate and max(limit, 1000) or limit, nil, {}) -- LOOKED_PAST in jobs/limits.py
    end
    local ids = {}
    for number, one in ipairs(found) do
        ids[number] = one[ID]
    end
    states_of(ids)
    for number, one in ipairs(found) do
        local key, _, _, size = read_job(with_job(found, number))
        if limit <= 0 or (most and size > most and least <= 0) then
            break
        end
        if not gate or gates.admits(gate, key) then
            start(one[ID], one[JOB], one[AT], one[LANE], terms, true, reply)
            limit, least, most = limit - 1, least - 1, most and most - size
        end
    end
    gates.shut(gate)
    flush()
    return reply, place + 3, {'reserve', receipts_of(reply)}
end

-- Then: begin, suspects, bytes, the ids, the number of those that are looked at without ids, the place behind which: '', or id, due
-- time, and priority if there is one; and the ids of those that are left out.
function commands.claim(at)
    local terms, place = terms_at(at)
    local topic, begin_some, suspects, most = terms.topic, tonumber(ARGV[place]), tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
    local limit, behind, without = tonumber(ARGV[place + 4]), ARGV[place + 5], {}
    local asked = ids_of(ARGV[place + 3])
    for _, b in ipairs(ids_of(ARGV[place + 6])) do
        without[b] = true
    end
    place = place + 7
    local paused = call('HGET', P .. ':t', topic)
    if paused ~= '' then
        local reply = {paused and 1 or 0, 0, 0, '', false}
        return reply, place, {'claim', reply, {}}
    end
    local found, coming, ids = nil, false, {}
    if limit > 0 then
        local due, priority = string.match(sub(behind, 7), '^(%S+) ?(%S*)$')
        found, coming = first_due_of(topic, limit, max(suspects, 0), due and {due, sub(behind, 1, 6), tonumber(priority)}, without)
    else
        found = waiting_of(topic, asked)
    end
    local gate = gates.open(topic, terms.limits)
    for number, one in ipairs(found) do
        ids[number] = one[ID]
    end
    states_of(ids)
    local taken, begun, left, full = {}, 0, {}, false
    for number, one in ipairs(found) do
        local b, state, key, size, _ = one[ID], states[one[ID]], nil, nil, nil
        local lost = state and state[LOST] or NEVER_LOST
        local leave = full or one[AT] > now
            or ((gate or lost ~= NEVER_LOST) and (begun >= begin_some or (lost == LOST_BEGUN and suspects <= 0)))
        if not leave then
            key, _, _, size = read_job(with_job(found, number))
            full = size > most and #taken > 0
            leave = full or (gate and not gates.admits(gate, key, b))
        end
        if leave then
            left[#left + 1] = one
        else
            local begins = begun < begin_some
            start(b, one[JOB], one[AT], one[LANE], terms, begins, taken)
            most, begun = most - size, begun + (begins and 1 or 0)
            suspects = suspects - (lost == LOST_BEGUN and 1 or 0)
        end
    end
    local reply = {0, begun, #left, gates.shut(gate), coming and string.format('%.0f', coming)}
    flush()
    for number, one in ipairs(left) do
        reply[2 + 4 * number], reply[3 + 4 * number], reply[4 + 4 * number] = one[ID], one[AT], one[RANK]
        reply[5 + 4 * number] = gate and gate.full[one[ID]] or false
    end
    for number = 1, #taken do
        reply[5 + 4 * #left + number] = taken[number]
    end
    return reply, place, {'claim', {0, begun, 0, '', #left > 0 and string.format('%.0f', now) or reply[5]}, receipts_of(taken)}
end

-- The first due jobs of a topic. ARGV: now, topic, how many. Returns of each: due time, id, and priority.
function api.first_due()
    local reply = {}
    for _, one in ipairs(call('HGET', P .. ':t', ARGV[2]) == '' and look(ARGV[2], tonumber(ARGV[3]), nil, {}) or {}) do
        local size = #reply
        reply[size + 1], reply[size + 2], reply[size + 3] = string.format('%.0f', one[AT]), one[ID], one[RANK]
    end
    return {micros, reply}
end

-- ARGV: now, '' or 1 if those of paused topics count, topics. Returns for each when its first delayed job is due, false if there is none.
function api.next_dues()
    local found = {}
    for place = 3, #ARGV do
        local counts = ARGV[2] ~= '' or call('HGET', P .. ':t', ARGV[place]) == ''
        local first = counts and first_due(ARGV[place], '-inf')
        found[place - 2] = first and string.format('%.0f', first) or false
    end
    return {micros, found}
end
