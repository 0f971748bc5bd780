-- Which jobs the script holds, refuses and leaves alone, outside of Slurm.
package.path = arg[0]:gsub("[^/]*$", "") .. "?.lua"
local fake = require("fake_slurm")
dofile(arg[1])
local PARTITIONS = { batch = { flag_default = 1 }, night = { flag_default = 0 }, other = { flag_default = 0 } }

local function submitted(job, user)
    job.priority = job.priority or slurm.NO_VAL
    local seen = fake.job(job)
    return slurm_job_submit(seen, PARTITIONS, user or 1000), seen
end

local function expect(what, got, want)
    if got ~= want then error(what .. ": got " .. tostring(got) .. ", wanted " .. tostring(want)) end
end

local code, job = submitted({ partition = "other", comment = "unrack: nonsense" })
expect("another partition", code, slurm.SUCCESS)
expect("its priority", job.priority, slurm.NO_VAL)
expect("its admin comment", job.admin_comment, nil)
code, job = submitted({})
expect("the default partition", code, slurm.SUCCESS)
expect("held", job.priority, 0)
expect("marked", job.admin_comment, "unrack:")
expect("two partitions", submitted({ partition = "batch,other" }), slurm.ERROR)
expect("two of ours", submitted({ partition = "batch,night" }), slurm.ERROR)
expect("none of ours", submitted({ partition = "other,other2" }), slurm.SUCCESS)
expect("held by its user", submitted({ partition = "night", priority = 0 }), slurm.ERROR)
code, job = submitted({ partition = "night", priority = 0 }, 900)
expect("held by an operator", code, slurm.SUCCESS)
expect("not marked", job.admin_comment, nil)
code, job = submitted({ partition = "night", admin_comment = "unrack: priority=9" })
expect("a user's admin comment", job.admin_comment, "unrack:")
code, job = submitted({ partition = "night", admin_comment = "unrack: priority=9" }, 0)
expect("an operator's admin comment", job.admin_comment, "unrack: priority=9")
code, job = submitted({ partition = "night", admin_comment = "note" }, 0)
expect("an operator's note", job.admin_comment, "unrack:; note")
expect("an operator's mistake", submitted({ partition = "night", admin_comment = "unrack: prio=9" }, 0), slurm.ERROR)

local function modified(change, partition, user)
    return slurm_job_modify(fake.job(change), { partition = partition }, PARTITIONS, user or 1000)
end
expect("release by its user", modified({ priority = 4294967295 }, "batch"), 2002)
expect("release by an operator", modified({ priority = 4294967295 }, "batch", 900), slurm.SUCCESS)
expect("release elsewhere", modified({ priority = 4294967295 }, "other"), slurm.SUCCESS)
expect("hold by its user", modified({ priority = 0 }, "batch"), slurm.SUCCESS)
expect("another time limit", modified({ priority = slurm.NO_VAL, time_limit = 5 }, "batch"), slurm.SUCCESS)
expect("a bad comment", modified({ comment = "unrack: no" }, "batch"), slurm.ERROR)
expect("a good comment", modified({ comment = "unrack: app=x" }, "batch"), slurm.SUCCESS)
expect("any comment elsewhere", modified({ comment = "unrack: no" }, "other"), slurm.SUCCESS)
expect("a move to ours", modified({ partition = "batch" }, "other"), 2002)
expect("a move to ours and another", modified({ partition = "other,batch" }, "batch"), 2002)
expect("a move within ours", modified({ partition = "night" }, "batch"), slurm.SUCCESS)
expect("a move away", modified({ partition = "other" }, "batch"), slurm.SUCCESS)
expect("a move by an operator", modified({ partition = "batch" }, "other", 0), slurm.SUCCESS)
expect("an operator's bad comment", modified({ partition = "batch", comment = "unrack: no" }, "other", 0), slurm.ERROR)

expect("a fault of the script", fake.failed, nil)
expect("a fault of Slurm's", submitted({ partition = "batch", comment = {} }), slurm.ERROR) -- closed, not let through
expect("that it is told", fake.failed ~= nil, true)
print("all as it should be")
