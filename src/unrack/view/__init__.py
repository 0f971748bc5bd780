"""What policies and slowdown models see."""

from unrack.view.assumed import NOBODY as NOBODY
from unrack.view.assumed import PLENTY as PLENTY
from unrack.view.assumed import Assumed as Assumed
from unrack.view.assumed import AssumedRun as AssumedRun
from unrack.view.assumed import DeviceLine as DeviceLine
from unrack.view.assumed import device_line as device_line
from unrack.view.draft import Draft as Draft
from unrack.view.draft import Expecting as Expecting
from unrack.view.view import NodeColumns as NodeColumns
from unrack.view.view import View as View
