-- Checks what jobs ask of unrack when they are submitted, and holds them until it starts them. Optional.
--
-- Slurm runs it with JobSubmitPlugins=lua from the folder of slurm.conf. Jobs of other partitions pass untouched. What
-- may be written in comments is described in docs/slurm-asks.md; this file and unrack read the same, which tests hold
-- them to. For Lua 5.1 and later.

-- Settings. `unrack` can fill them in from a site file.
local PARTITIONS = { "batch" } -- that unrack schedules
local OPERATORS = { 0 } -- user ids that may release held jobs: root, and the account that unrack runs as
local QUANTITIES = {} -- what jobs may ask, such as "nvme.capacity_mb"; empty: anything that looks like it
local PRIORITY_MOST = 0 -- the highest priority that users may ask for
local WAKE_FILE = "" -- an existing file that is written to when a job comes, so that unrack looks at once; "": none
-- End of settings.

local MARK, MOST_WORD, MOST_SHOWN, MOST_AMOUNT, MOST_US = "unrack:", 120, 80, 2 ^ 42, 3650 * 86400 * 1000000
local MOST_PRIORITY = 999999999
local NO_VALUE = slurm.NO_VAL or 4294967294
local DENIED = slurm.ESLURM_ACCESS_DENIED or slurm.ERROR

local SHAPE = "KEY=VALUE without blanks, such as nvme.capacity=100GB"
local SIZE = "a size such as 100GB"
local BANDWIDTH = "a bandwidth such as 1800MB/s"
local COUNT = "a whole number"
local TIME = "a time such as 2h or 1h30min, above 0, up to 3650d"
local PRIORITY = "a whole number from -" .. MOST_PRIORITY .. " to " .. MOST_PRIORITY
local NAME = "a name of up to 64 letters, digits and any of _ . + -"

local BINARY = { [""] = 1, k = 1 / 1024, m = 1, g = 1024, t = 1024 * 1024 }
local DECIMAL = { [""] = 1, K = 1 / 1000, M = 1, G = 1000, T = 1000000 }
local TIMES_US = {
    us = 1, ms = 1000, s = 1000000, sec = 1000000, m = 60000000, min = 60000000, h = 3600000000, d = 86400000000,
    w = 604800000000,
}

local function set_of(names)
    local found = {}
    for _, name in ipairs(names) do found[name] = true end
    return found
end

local OURS, OPERATES = set_of(PARTITIONS), set_of(OPERATORS)

-- A word from outside as messages show it: without control characters, cut.
local function printable(text)
    local shown, length = {}, 0
    for i = 1, math.min(#text, MOST_SHOWN + 1) do
        local byte = text:byte(i)
        local part = text:sub(i, i)
        if part == "\n" then part = "\\n"
        elseif part == "\r" then part = "\\r"
        elseif part == "\t" then part = "\\t"
        elseif part == "\\" then part = "\\\\"
        elseif byte < 32 or byte > 126 then part = string.format("\\x%02x", byte) end
        shown[#shown + 1] = part
        length = length + #part
    end
    if length > MOST_SHOWN then
        while length > MOST_SHOWN - 3 do length = length - #table.remove(shown) end
        shown[#shown + 1] = "..."
    end
    return table.concat(shown)
end

-- A number at the start of a text, with at most 13 digits and three decimals, and the rest; nil: there is none.
local function number_of(text)
    local whole, rest = text:match("^([0-9]+)(.*)$")
    if not whole or #whole > 13 then return nil end
    local decimals, after = rest:match("^%.([0-9]+)(.*)$")
    if decimals then
        if #decimals > 3 then return nil end
        return tonumber(whole .. "." .. decimals), after
    end
    return tonumber(whole), rest
end

-- Each says what was wanted if the text is not it, and nil if it is.
local function not_a_size(text)
    local number, unit = number_of(text)
    if not number then return SIZE end
    unit = unit:lower()
    local factor
    if unit == "b" then factor = 1 / 1048576
    else
        local letter, rest = unit:match("^([kmgt]?)(.*)$")
        if rest ~= "" and (letter == "" or (rest ~= "b" and rest ~= "ib")) then return SIZE end
        factor = BINARY[letter]
    end
    if number * factor >= MOST_AMOUNT then return SIZE .. ", below 2**42" end
end

local function not_a_bandwidth(text)
    local number, unit = number_of(text)
    if not number then return BANDWIDTH end
    if unit:sub(-2) == "/s" or unit:sub(-2) == "ps" then unit = unit:sub(1, -3) end
    local factor
    if unit == "B" then factor = 1 / 1000000
    else
        local letter, rest = unit:match("^([KMGT]?)(.*)$")
        if letter ~= "" and rest:sub(1, 1) == "i" then rest = rest:sub(2) end
        if rest ~= "" and (letter == "" or (rest ~= "b" and rest ~= "B")) then return BANDWIDTH end
        factor = DECIMAL[letter]
        if rest == "b" then factor = factor / 8 end
    end
    if number * factor >= MOST_AMOUNT then return BANDWIDTH .. ", below 2**42" end
end

local function not_a_count(text)
    if #text > 13 or not text:find("^[0-9]+$") then return COUNT end
    if tonumber(text) >= MOST_AMOUNT then return COUNT .. ", below 2**42" end
end

local function not_any_amount(text)
    if not_a_size(text) and not_a_bandwidth(text) and not_a_count(text) then
        return SIZE .. ", " .. BANDWIDTH .. ", or " .. COUNT
    end
end

local function not_memory(text)
    local problem = not_a_size(text)
    if problem then return problem end
    if number_of(text) == 0 then return "1MB or more" end
end

local function not_a_time(text)
    local total, parts, rest = 0, 0, text
    while rest ~= "" do
        local number, after = number_of(rest)
        if not number then return TIME end
        local unit
        unit, rest = after:match("^([a-z]*)(.*)$")
        parts = parts + 1
        if unit == "" and (parts > 1 or rest ~= "") then return TIME end
        if unit == "" then unit = "s" end
        if not TIMES_US[unit] or parts > 8 then return TIME end
        total = total + number * TIMES_US[unit]
    end
    if total <= 0.5 or total > MOST_US then return TIME end
end

local function not_a_priority(text, most)
    local digits = text:match("^[+-]?([0-9]+)$")
    if not digits or #digits > 9 then return PRIORITY end
    if tonumber((text:gsub("^%+", ""))) > most then
        return string.format("%d or less: only an administrator may ask for more", most)
    end
end

local function not_a_name(text)
    if #text > 64 or not text:find("^[A-Za-z0-9][A-Za-z0-9_.+-]*$") then return NAME end
end

local OWN = { memory = not_memory, deadline = not_a_time, priority = not_a_priority, app = not_a_name }

-- What may be written: the key -> the full name of the quantity; a name without its unit too, if it fits one only.
local ASKABLE, KNOWN = {}, { "memory", "deadline", "priority", "app" }
do
    local short = {}
    for _, name in ipairs(QUANTITIES) do
        ASKABLE[name] = name
        KNOWN[#KNOWN + 1] = name
        local stem = name:match("^(.+)_mb_s$") or name:match("^(.+)_mb$")
        if stem then short[stem] = short[stem] == nil and name or false end
    end
    for stem, name in pairs(short) do
        if name and not ASKABLE[stem] then ASKABLE[stem] = name end
    end
end

local function not_an_amount(name, text)
    local quantity = name:match("%.(.*)$")
    if ("_" .. quantity):find("_mb_s$") then return not_a_bandwidth(text) end
    if ("_" .. quantity):find("_mb$") then return not_a_size(text) end
    if #QUANTITIES == 0 then return not_any_amount(text) end
    return not_a_count(text)
end

-- What is wrong with one word; `seen`: what was asked already.
local function problem_of_word(word, where, seen, priority_most)
    local function problem(at, got, want) return at .. ": got " .. got .. ", wanted " .. want end
    local key, value
    if #word <= MOST_WORD then key, value = word:match("^([^=]+)=(.*)$") end
    local plain = key and (key:find("^[A-Za-z][A-Za-z0-9_-]*$") ~= nil)
    local dotted = key and (key:find("^[A-Za-z][A-Za-z0-9_-]*%.[A-Za-z][A-Za-z0-9_]*$") ~= nil)
    if not plain and not dotted then return problem(where, "'" .. printable(word) .. "'", SHAPE) end
    local name = ASKABLE[key] or (dotted and #QUANTITIES == 0 and key) or nil
    if not name and not OWN[key] then
        local known = #QUANTITIES == 0 and table.concat(KNOWN, ", ") .. ", KIND.QUANTITY" or table.concat(KNOWN, ", ")
        return problem(where, "'" .. printable(key) .. "'", ("one of " .. known):sub(1, 400))
    end
    local at = where .. ", " .. key
    if seen[name or key] then return problem(at, "it twice", "it once") end
    seen[name or key] = true
    local want
    if name then want = not_an_amount(name, value) else want = OWN[key](value, priority_most) end
    if want then return problem(at, "'" .. printable(value) .. "'", want) end
end

-- What is wrong with a comment; nil: nothing. Second: whether it says anything to unrack.
local function problem_of(text, where, priority_most)
    if not text then return nil, false end
    local lower, at, seen, marked = text:lower(), 1, {}, false
    while true do
        local first, last = lower:find(MARK, at, true)
        if not first then return nil, marked end
        at = last + 1
        if first == 1 or text:sub(first - 1, first - 1):find("[ \t\v\f\r\n;]") then
            marked = true
            local stop = text:find("[\n;]", at) or #text + 1
            for word in text:sub(at, stop - 1):gmatch("[^ \t\v\f\r]+") do
                local problem = problem_of_word(word, where, seen, priority_most)
                if problem then return problem, marked end
            end
            at = stop
        end
    end
end

-- How many of the partitions that a job names are unrack's, and how many are not; without a name, the default one.
local function counted(named, partitions)
    local ours, others = 0, 0
    if named == nil or named == "" then
        for name, partition in pairs(partitions or {}) do
            if partition.flag_default == 1 then named = name end
        end
    end
    for name in (named or ""):gmatch("[^,]+") do
        if OURS[name] then ours = ours + 1 else others = others + 1 end
    end
    return ours, others
end

local function refused(problem, code)
    slurm.log_user("unrack: " .. problem)
    return code or slurm.ERROR
end

local function wake()
    if WAKE_FILE == "" then return end
    local file = io.open(WAKE_FILE, "r+") -- never made here: this runs with more rights than the scheduler has
    if file then
        file:write("\n")
        file:close()
    end
end

local function submitted(job, ours, others, user)
    if others > 0 then
        return refused("partition: got others too, wanted some of " .. table.concat(PARTITIONS, ", ") .. " alone")
    end
    local problem = problem_of(job.comment, "comment", PRIORITY_MOST)
    if problem then return refused(problem) end
    local of_admin, marked = problem_of(job.admin_comment, "admin comment", MOST_PRIORITY)
    if OPERATES[user] then
        if of_admin then return refused(of_admin) end
        if job.priority == 0 then return slurm.SUCCESS end -- an operator holds it, and will release it
    else
        if job.priority == 0 then
            return refused("hold: got a job that is held, wanted one that may start, perhaps after --begin")
        end
        marked = false
    end
    job.priority = 0
    if not marked then -- by this unrack knows that it was held here, and not by its user
        job.admin_comment = OPERATES[user] and job.admin_comment and (MARK .. "; " .. job.admin_comment) or MARK
    end
    wake()
    return slurm.SUCCESS
end

local function modified(job, record, partitions, user)
    local was = counted(record.partition, partitions)
    local operates = OPERATES[user]
    if job.partition ~= nil and not operates then
        local ours, others = counted(job.partition, partitions)
        if ours > 0 and (was == 0 or others > 0) then
            return refused("partition: got a job of another, wanted it submitted there anew", DENIED)
        end
        if ours == 0 then return slurm.SUCCESS end -- it leaves
    end
    if was == 0 and not (operates and job.partition ~= nil) then return slurm.SUCCESS end
    local problem = problem_of(job.comment, "comment", PRIORITY_MOST)
        or problem_of(job.admin_comment, "admin comment", MOST_PRIORITY)
    if problem then return refused(problem) end
    if not operates and job.priority ~= nil and job.priority ~= 0 and job.priority ~= NO_VALUE then
        return refused("priority: got another, wanted that unrack releases the job", DENIED)
    end
    wake()
    return slurm.SUCCESS
end

-- Slurm lets a job pass, and start, where a script fails: jobs of these partitions are then refused.
local function closed(done, code)
    if done then return code end
    slurm.log_error("unrack: %s", tostring(code))
    return refused("script: got a fault of job_submit.lua, wanted none; the log of slurmctld has it")
end

function slurm_job_submit(job, partitions, user)
    local ours, others = counted(job.partition, partitions)
    if ours == 0 then return slurm.SUCCESS end
    return closed(pcall(submitted, job, ours, others, user))
end

function slurm_job_modify(job, record, partitions, user)
    if counted(record.partition, partitions) == 0 and job.partition == nil then return slurm.SUCCESS end
    return closed(pcall(modified, job, record, partitions, user))
end

return slurm.SUCCESS
