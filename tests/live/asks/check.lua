-- Runs a job_submit.lua outside of Slurm: reads comments from standard input, each after a line with its length in
-- bytes, and writes for each "ok" or what the user would be told, in one line.
package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua"
local fake = require("fake_slurm")
dofile(arg[1])
while true do
    local length = io.read("*l")
    if not length then break end
    local text = tonumber(length) > 0 and io.read(tonumber(length)) or ""
    fake.said = nil
    local job = fake.job({ comment = text, partition = "batch", priority = slurm.NO_VAL })
    local code = slurm_job_submit(job, {}, 1000)
    assert(fake.failed == nil, fake.failed)
    if code == slurm.SUCCESS then
        assert(job.priority == 0 and job.admin_comment == "unrack:" and fake.said == nil)
        print("ok")
    else
        print((fake.said:gsub("\n", "\\n")))
    end
    io.flush()
end
