-- Notes: until when (8 bytes, infinity without an end) and the value, by name; beside them their names, in order, and those with
-- an end, by it.
local NOTES, NOTE_NAMES, NOTES_OVER = P .. ':e', P .. ':c', P .. ':g'

local function read_note(packed)
    if packed and now < struct.unpack('>d', packed) then
        return sub(packed, 9)
    end
    return false
end
