-- The places of jobs. Waiting jobs are in :d:<lane>:<topic> by due time. A lane is a priority, with an s behind it for suspects: jobs whose
-- handler ran as their last lease was lost. So no claim looks at other priorities, nor at more suspects than it may take. :t has for each
-- topic the number of its present pause, if any, and behind a space each its lanes except 0. Running jobs are in :l:<topic> by the end of
-- their lease, and those with a key in :g:<topic> by that. :l has for each topic a time before which none of its leases is over. Finished
-- jobs are in :f:<state><topic> by their end. :k:<topic> has the live job of each key; :o:<topic> has those that had the key before,
-- finished or as they handed it on. A member of a set in the order of keys is the key, a NUL, and the id.
-- :f<state> has for each topic a time before which none of its jobs ended in that state, so that a purge looks into few topics. It has the
-- topics with such jobs, and for done ones all topics: so no ack writes there.
local SUSPECT = 's'

-- Returns the names of a topic's keys, made once; those of finished jobs by state.
local function keys_of(topic)
    local found = names[topic]
    if not found then
        found = {leases = P .. ':l:' .. topic, groups = P .. ':g:' .. topic, holders = P .. ':k:' .. topic, former = P .. ':o:' .. topic}
        found[DONE], found[DEAD], found[CANCELLED] = P .. ':f:2' .. topic, P .. ':f:3' .. topic, P .. ':f:4' .. topic
        names[topic] = found
    end
    return found
end

-- Returns the facts of a topic: {value = ..., pause = ..., lanes}, lanes of the highest priority first: {priority, key, suspects}.
local function topic_named(topic)
    local found = topics[topic]
    if found then
        return found
    end
    local value = call('HGET', K.topics, topic)
    local first = P .. ':d:0:' .. topic
    found = {{0, first, false}, value = value, by_name = {['0'] = first}}
    if value and value ~= '' then
        found.pause = tonumber(string.match(value, '^%d+'))
        for name, priority, suspect in string.gmatch(value, ' ((%-?%d)(s?))') do
            found.by_name[name] = P .. ':d:' .. name .. ':' .. topic
            found[#found + 1] = {tonumber(priority), found.by_name[name], suspect == SUSPECT}
        end
        table.sort(found, function(one, other)
            return one[1] > other[1] or (one[1] == other[1] and other[3] and not one[3])
        end)
    end
    topics[topic] = found
    return found
end

-- Whether jobs of a topic may be claimed: it is known, and not paused.
local function is_open(topic)
    local found = topic_named(topic)
    return found.value and not found.pause
end

local function lane_name(priority, lost)
    return lost == LOST_BEGUN and priority .. SUSPECT or tostring(priority)
end

-- Returns the key of the set of the topics by their first end in a state.
local function ends_of(state)
    return P .. ':f' .. state
end

-- Lists a topic that may be new.
local function list_topic(topic)
    if call('HSETNX', K.topics, topic, '') == 1 then
        call('ZADD', ends_of(DONE), 'NX', now, topic)
    end
end

-- Returns the key of a lane. The lane and its topic exist from now on.
local function lane(topic, priority, lost)
    local name, there = lane_name(priority, lost), topic_named(topic)
    if not (there.value and there.by_name[name]) then
        list_topic(topic)
        call('HSET', K.topics, topic, (there.value or '') .. (there.by_name[name] and '' or ' ' .. name))
        topics[topic] = nil
        there = topic_named(topic)
    end
    return there.by_name[name]
end

-- Returns the due time and the lane of a waiting job.
local function due_of(topic, b)
    for _, one in ipairs(topic_named(topic)) do
        local due = call('ZSCORE', one[2], b)
        if due then
            return tonumber(due), one[2]
        end
    end
end

-- Returns the due time of a topic's first job after a time.
local function first_due(topic, after)
    local first = nil
    for _, one in ipairs(topic_named(topic)) do
        local due = tonumber(call('ZRANGE', one[2], after, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2])
        first = due and min(due, first or due) or first
    end
    return first
end

local function history_of(b)
    return P .. ':h:' .. number(b)
end

local function with_key(key, b)
    return key .. '\0' .. b
end

-- Changes of sorted sets and hashes are gathered until `flush`, and then made by few calls.
local function add(key, score, b)
    local list = added[key] or list_of(added, key)
    local size = #list
    list[size + 1], list[size + 2] = digits(score), b
end

local function remove(key, b)
    local list = removed[key] or list_of(removed, key)
    list[#list + 1] = b
end

local function set(key, field, value)
    local list = list_of(hashed, key)
    local size = #list
    list[size + 1], list[size + 2] = field, value
end

-- Releases the keys of a topic's jobs that ended, except keys that they had handed on.
local function let_go(topic, keys, ids)
    local held, places = {}, keys_of(topic)
    for place, holder in ipairs(of_each('HMGET', places.holders, keys)) do
        if holder == ids[place] then
            held[#held + 1] = keys[place]
            add(places.former, 0, with_key(keys[place], holder))
        end
    end
    each_part('HDEL', places.holders, held)
end

local function write(command, lists)
    for key, list in pairs(lists) do
        each_part(command, key, list)
        lists[key] = nil
    end
end

local function flush()
    write('HSET', hashed)
    for topic, ended in pairs(freed) do
        let_go(topic, ended.keys, ended.ids)
        freed[topic] = nil
    end
    write('ZREM', removed)
    write('ZADD', added)
    for key, lowest in pairs(bounds) do
        for topic, score in pairs(lowest) do
            call('ZADD', key, 'LT', digits(score), topic)
        end
        bounds[key] = nil
    end
end

local function write_states()
    for _, b in ipairs(changed) do
        if states[b] then
            set(chunk(':s:', b), b, pack_state(states[b]))
        end
    end
    flush()
end

-- Notes a time in a set of topics by their first one.
local function note_first(key, topic, score)
    local lowest = list_of(bounds, key)
    lowest[topic] = min(score, lowest[topic] or score)
end

local function lease_until(b, state)
    local topic, lease = state[TEXT].topic, state[LEASE]
    add((names[topic] or keys_of(topic)).leases, lease, b)
    note_first(K.leases, topic, lease)
end

-- Returns the earliest time at which a lease may be over, or false: the time noted for a topic is checked once it is the first.
local function first_lease()
    for _ = 1, 100 do
        local first = call('ZRANGE', K.leases, 0, 0, 'WITHSCORES')
        if not first[1] then
            return false
        end
        local lease = call('ZRANGE', keys_of(first[1]).leases, 0, 0, 'WITHSCORES')[2]
        if lease and tonumber(lease) <= tonumber(first[2]) then
            return tonumber(lease)
        elseif lease then
            call('ZADD', K.leases, lease, first[1])
        else
            call('ZREM', K.leases, first[1])
        end
    end
    return tonumber(call('ZRANGE', K.leases, 0, 0, 'WITHSCORES')[2]) or false
end

-- ---- the first of several sets ----------------------------------------------------------------------------------------

local SCORE, ID, SOURCE = 1, 2, 3 -- the fields of a member that was read

-- Returns up to `limit` members of sets in one order, by score, then by id: {score, id, source}. A source is {key = ..., from = the rank
-- at which its read begins}, ranks from the end with `down`. It stops at the score `stop`, and skips the ids `without`. Each round reads on
-- in the sets that may have members before the last one found.
local function merged(sources, limit, stop, down, without)
    local sign, found, several, some = down and -1 or 1, {}, #sources > 1, max(floor(limit / max(#sources, 1)), 1)
    while #sources > 0 do
        local more = {}
        for _, source in ipairs(sources) do
            local from, part = source.from, {}
            if not source.last or source.last <= stop * sign then
                part = down and call('ZRANGE', source.key, from, from + some - 1, 'REV', 'WITHSCORES')
                    or call('ZRANGE', source.key, from, from + some - 1, 'WITHSCORES')
            end
            for place = 1, #part, 2 do
                local b, score = part[place], tonumber(part[place + 1])
                source.last = score * sign
                if source.last > stop * sign then
                    break
                elseif not (without and without[b]) then
                    source.count, found[#found + 1] = (source.count or 0) + 1, {score, b, source}
                end
            end
            source.from = from + some
            more[#more + 1] = #part == 2 * some and (source.count or 0) < limit and source or nil
        end
        if several then
            table.sort(found, function(one, other)
                if one[SCORE] ~= other[SCORE] then
                    return one[SCORE] * sign < other[SCORE] * sign
                end
                return down and one[ID] > other[ID] or not down and one[ID] < other[ID]
            end)
        end
        for place = #found, limit + 1, -1 do
            found[place] = nil
        end
        stop = #found == limit and found[limit][SCORE] or stop
        sources, some = more, min(4 * some, limit)
    end
    return found
end

-- ---- finding a job --------------------------------------------------------------------------------------------------------

local function is_live(b)
    return seen(state_of(b)) <= RUNNING
end

-- Returns the last jobs that had a key, the last first.
local function former_jobs(topic, key, limit)
    local found = call('ZRANGE', keys_of(topic).former, '(' .. key .. '\1', '[' .. key .. '\0', 'BYLEX', 'REV', 'LIMIT', 0, limit)
    for place, member in ipairs(found) do
        found[place] = sub(member, -6)
    end
    return found
end

-- Returns the live job with a key, or else the latest finished one: jobs that handed it on may be live.
local function find_by_key(topic, key)
    local holder = call('HGET', keys_of(topic).holders, key)
    if holder and is_live(holder) then
        return holder
    end
    for _, b in ipairs(former_jobs(topic, key, PIECE)) do
        if holder and holder > b then
            break
        elseif not is_live(b) then
            return b
        end
    end
    return holder or nil
end

-- Finds a job by its id, or by {topic, key}.
local function find(ref)
    if type(ref) == 'table' then
        return find_by_key(ref[1], ref[2])
    end
    local b = ref > 0 and ref <= LAST_ID and bid(ref)
    return b and call('HEXISTS', chunk(':j:', b), b) == 1 and b or nil
end
