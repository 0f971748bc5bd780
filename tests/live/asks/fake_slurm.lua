-- What a job_submit.lua sees of Slurm, as far as ours looks; like the real one a job refuses to be given nil.
local M = { said = nil, failed = nil }
slurm = {
    SUCCESS = 0, ERROR = -1, NO_VAL = 4294967294, ESLURM_ACCESS_DENIED = 2002,
    log_user = function(text) M.said = text end,
    log_info = function() end,
    log_error = function(form, ...) M.failed = string.format(form, ...) end,
}

function M.job(fields)
    return setmetatable({}, {
        __index = fields,
        __newindex = function(_, key, value)
            if value == nil then error("string expected, got nil") end
            fields[key] = value
        end,
    })
end

return M
