-- Steps: a client's request happens once, all of it or nothing. A request that comes twice, because a connection broke, is known by its
-- number: the outcomes of each client's last request are kept for a while, those of claims without the bodies. ARGV: now, client, number.
local KEPT = '86400000' -- ms, as it is sent: a day, as the server's clock may step by hours

local noted -- the key of this client's last request

-- Returns the number of the client's last request and, if it is this one, its outcomes. In a store that was emptied nothing happens.
local function begin_request()
    noted = P .. ':q:' .. ARGV[2]
    local request, known = tonumber(ARGV[3]), call('MGET', noted, K.furthest, K.format)
    local latest = known[1] and tonumber(string.match(known[1], '^%d+')) or 0
    furthest, at = tonumber(known[2] or -1e300), 4
    if not known[3] then
        error({err = 'EMPTIED this store is to be opened anew'})
    end
    if latest > request then
        error({err = 'STALE this request was given up'})
    end
    return latest, latest == request and cmsgpack.unpack(sub(known[1], string.find(known[1], ' ', 1, true) + 1))
end

local function end_request(outcomes)
    call('SET', noted, ARGV[3] .. ' ' .. cmsgpack.pack(outcomes), 'PX', KEPT)
end

-- Further arguments: commands in order, the name of each and its arguments. Each returns its outcome, and the value to keep in its place,
-- if that differs. Returns the last known request, the outcomes, and the earliest end of a lease, -1 if there is none.
function steps.apply()
    local latest, outcomes = begin_request()
    begin_call()
    if outcomes then
        for place, outcome in ipairs(outcomes) do
            outcomes[place] = type(outcome) == 'table' and outcome.claimed and claim_again(outcome) or outcome
        end
        return {micros, latest, outcomes, first_lease() or -1}
    end
    local kept = {}
    outcomes = {}
    while at <= #ARGV do
        local outcome, instead = commands[take()](cjson.decode(take()))
        outcomes[#outcomes + 1], kept[#kept + 1] = outcome, instead or outcome
        flush()
    end
    write_states()
    publish_hints()
    end_request(kept)
    return {micros, latest, outcomes, first_lease() or -1}
end
steps.settle = steps.apply

-- The usual step: one job without a key. Further arguments: topic, due time, and the packed part. It changes no lease.
function steps.put()
    local latest, id, b = begin_request()
    if not id then
        local topic, due, text = ARGV[4], due_at(ARGV[5])
        id, b = new_id()
        call('HSET', chunk(':j:', b), b, created(now) .. ARGV[6])
        list_topic(topic)
        call('ZADD', P .. ':d:0:' .. topic, text or digits(due), b)
        if due <= furthest then
            begin_call()
            tell(topic, b, due, 0)
            publish_hints()
        end
        end_request(id)
    end
    return {micros, latest, id}
end

-- Opens a store for a client that knows a version, and writes stores for clients from `least` on, on a server with this run id. The format
-- has version and least: an older store becomes one of this version, a newer one stays as it is. After a restart, or on another server,
-- the latest writes may be lost: ids and claims that were given out in them are not given out again. If the store was `known` to the
-- client and all is lost, its ids begin at a place that follows from the time. Returns the store's format, '' if there is no store.
function api.open(asked)
    local format = call('GET', K.format)
    if not format and not asked.create then
        return ''
    end
    local version, least = string.match(format or 'pywheel 0', '^pywheel (%d+) ?(%d*)$')
    if not version or tonumber(least ~= '' and least or version) > asked.version then
        return format
    elseif tonumber(version) < asked.version then
        local mine = 'pywheel ' .. asked.version .. (asked.least ~= asked.version and ' ' .. asked.least or '')
        call('SET', K.format, mine)
        call('ZADD', K.chunks, 'NX', 0, sub(bid(0), 1, 5))
        if asked.known then
            call('SET', K.last_id, digits((floor(micros / 1000000) % 1048576 + 1) * BUMP), 'NX')
        end
        call('HSETNX', K.run, 'id', asked.run_id)
        format = mine
    end
    if call('HGET', K.run, 'id') ~= asked.run_id then
        local last = tonumber(call('GET', K.last_id) or 0)
        call('SET', K.last_id, digits((floor(last / BUMP) + 1) * BUMP))
        call('HSET', K.run, 'id', asked.run_id)
        call('HINCRBY', K.run, 'base', 1000)
    end
    return format
end
