-- Claims. ARGV[at]: topic, worker, ttr, max_attempts, jitter, slack, hold, limits or '', how many backoffs, and these.
local function terms_at(at)
    local terms = {
        topic = ARGV[at], worker = ARGV[at + 1], ttr = tonumber(ARGV[at + 2]), most = tonumber(ARGV[at + 3]),
        jitter = tonumber(ARGV[at + 4]), slack = tonumber(ARGV[at + 5]), hold = tonumber(ARGV[at + 6]), limits = ARGV[at + 7],
        backoff = {},
    }
    local some = tonumber(ARGV[at + 8])
    for number = 1, some do
        terms.backoff[number] = tonumber(ARGV[at + 8 + number])
    end
    if terms.jitter > 0 then
        math.randomseed(micros % 4294967296)
    end
    return terms, at + 9 + some
end

local function backoff_of(terms, attempt)
    local delay = terms.backoff[math.min(math.max(attempt, 1), #terms.backoff)]
    if not delay then
        return 0
    end
    if terms.jitter > 0 then
        delay = math.floor(delay * (1 + terms.jitter * (2 * math.random() - 1)) + 0.5)
    end
    return math.max(delay, 0)
end

-- Receipts given out before a restart that lost some are never given out again: claims go on from the next thousand.
local base
local function new_claim(state)
    base = base or tonumber(call('HGET', P .. ':run', 'base') or 0)
    if state[CLAIMS] < base then
        state[FORGIVEN] = state[FORGIVEN] + base - state[CLAIMS]
        state[CLAIMS] = base
    end
    state[CLAIMS] = state[CLAIMS] + 1
end

-- Claims a job; appends to `reply` what the worker gets of it.
local function start(b, job, key, ttr, most, due, terms, begun, reply)
    local state = states[b] or {DELAYED, terms.topic, key, due, 0, 0, NEVER_LOST, false}
    make_history(b, state)
    new_claim(state)
    local attempt = state[CLAIMS] - state[FORGIVEN]
    if not ttr or ttr == 0 then
        ttr = terms.ttr
    end
    if not most or most == 0 then
        most = terms.most
    end
    state[STATE], state[DUE], state[ATTEMPT], state[BEGUN] = RUNNING, due, attempt, begun and 1 or 0
    state[LEASE] = now + (begun and ttr + terms.slack or terms.hold)
    state[MOST], state[BACKOFF], state[STARTED], state[WORKER] = most, backoff_of(terms, attempt), now, terms.worker
    if mark_of(terms.topic) == 0 then
        remove(delayed_of(terms.topic), b)
        add(LEASES, state[LEASE], b)
    else
        wait_no_more(terms.topic, b)
        lease_until(b, state)
    end
    keep(b, state)
    local size = #reply
    reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = b, due, state[CLAIMS], attempt
    reply[size + 5], reply[size + 6], reply[size + 7], reply[size + 8] = state[LEASE], state[LOST], state[ERROR], job
end

-- What is kept of a claim in case it is asked for again: no bodies, but where they are.
local function receipts_of(reply, from)
    local kept = {}
    for place = from, #reply, 8 do
        kept[#kept + 1] = reply[place]
        kept[#kept + 1] = reply[place + 2]
    end
    return kept
end

-- Returns the same claims again, as far as they still hold.
local function claimed_again(kept, reply)
    for place = 1, #kept, 2 do
        local b, state = kept[place], state_of(kept[place])
        if state and state[STATE] == RUNNING and state[CLAIMS] == kept[place + 1] then
            for _, value in ipairs({b, state[DUE], state[CLAIMS], state[ATTEMPT], state[LEASE], state[LOST], state[ERROR],
                call('HGET', of_job(b), b)}) do
                reply[#reply + 1] = value
            end
        end
    end
    return reply
end

local LOOKED_PAST = 1000 -- jobs/limits.py

-- Then: limit, bytes or '', least. With bytes the bodies are read a few at a time.
function commands.reserve(at)
    local terms, place = terms_at(at)
    local limit, most, least = tonumber(ARGV[place]), tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
    settle_all_over()
    local reply = {}
    if limit > 0 and call('HGET', P .. ':t', terms.topic) == '' then
        local gate = gate_of(terms.topic, terms.limits)
        local ids, dues = due_in_order(terms.topic, gate and math.max(limit, LOOKED_PAST) or limit)
        states_of(ids)
        local jobs, first, last = {}, 1, 0
        for number, b in ipairs(ids) do
            if number > last then
                first, last = number, most and math.min(number + 63, #ids) or #ids
                jobs = values(':j:', most and {unpack(ids, first, last)} or ids)
            end
            local job = jobs[number - first + 1]
            local key, ttr, attempts, size = read_job(job)
            if limit <= 0 or (most and size > most and least <= 0) then
                break
            end
            if not gate or admits(gate, key) then
                start(b, job, key, ttr, attempts, dues[number], terms, true, reply)
                limit, least = limit - 1, least - 1
                most = most and most - size
            end
        end
        shut(gate)
        flush()
    end
    return reply, place + 3, {'reserve', receipts_of(reply, 1)}
end

-- Returns the ids of a claim that are delayed, with when they are due, in order.
local function delayed_among(topic, ids)
    local due, found = {}, {}
    local missing = {}
    for place, score in ipairs(scores(delayed_of(topic), ids)) do
        if score then
            due[ids[place]] = tonumber(score)
            found[#found + 1] = ids[place]
        else
            missing[#missing + 1] = ids[place]
        end
    end
    local over = {}
    for place, score in ipairs(scores(LEASES, missing)) do
        local b = missing[place]
        if score and tonumber(score) <= now and state_of(b)[TOPIC] == topic and settle_lost(b, state_of(b)) then
            over[#over + 1] = b
        end
    end
    if #over > 0 then
        flush()
        for place, score in ipairs(scores(delayed_of(topic), over)) do
            if score then
                due[over[place]] = tonumber(score)
                found[#found + 1] = over[place]
            end
        end
    end
    local rank = lanes_of(topic) > 0 and {}
    for place, priority in ipairs(rank and priorities(topic, found) or {}) do
        rank[found[place]] = due[found[place]] > now and -100 or priority
    end
    local function before(one, other)
        if rank and rank[one] ~= rank[other] then
            return rank[one] > rank[other]
        end
        return due[one] < due[other] or (due[one] == due[other] and one < other)
    end
    for place = 2, #found do
        if not before(found[place - 1], found[place]) then
            table.sort(found, before)
            break
        end
    end
    return found, due
end

-- Then: begin, suspects, bytes, and the ids, 6 bytes each. Bodies are read a few at a time: some may be large.
function commands.claim(at)
    local terms, place = terms_at(at)
    local begin, suspects, most = tonumber(ARGV[place]), tonumber(ARGV[place + 1]), tonumber(ARGV[place + 2])
    local packed = ARGV[place + 3]
    place = place + 4
    local paused = call('HGET', P .. ':t', terms.topic)
    if paused ~= '' then
        local reply = {paused and 1 or 0, 0, 0, ''}
        return reply, place, {'claim', reply, {}}
    end
    local ids = {}
    for first = 1, #packed, 6 do
        ids[#ids + 1] = sub(packed, first, first + 5)
    end
    local found, due = delayed_among(terms.topic, ids)
    local gate = gate_of(terms.topic, terms.limits)
    states_of(found)
    local taken, begun, left, full = {}, 0, {}, false
    local jobs, first, last = {}, 0, 0
    for place, b in ipairs(found) do
        local state = states[b]
        local lost = state and state[LOST] or NEVER_LOST
        if full or due[b] > now or ((gate or lost ~= NEVER_LOST) and (begun >= begin or (lost == LOST_BEGUN and suspects <= 0))) then
            left[#left + 1] = b
        else
            if place > last then
                first, last = place, math.min(place + 63, #found)
                jobs = values(':j:', {unpack(found, first, last)})
            end
            local job = jobs[place - first + 1]
            local key, ttr, attempts, size = read_job(job)
            if size > most and #taken > 0 then
                full = true
                left[#left + 1] = b
            elseif gate and not admits(gate, key, b) then
                left[#left + 1] = b
            else
                local begins = begun < begin
                start(b, job, key, ttr, attempts, due[b], terms, begins, taken)
                most = most - size
                if begins then
                    begun = begun + 1
                end
                if lost == LOST_BEGUN then
                    suspects = suspects - 1
                end
            end
        end
    end
    local again = shut(gate)
    flush()
    local reply, others = {0, begun, #left, again}, lanes_of(terms.topic) > 0 and priorities(terms.topic, left)
    for place, b in ipairs(left) do
        local size = #reply
        reply[size + 1], reply[size + 2], reply[size + 3] = b, due[b], others and others[place] or 0
        reply[size + 4] = gate and gate.full[b] or false
    end
    local kept = {0, begun, 0, ''}
    for number = 1, #taken do
        reply[#reply + 1] = taken[number]
    end
    return reply, place, {'claim', kept, receipts_of(taken, 1)}
end
