"""What policies and slowdown models see."""

from unrack.view.draft import NOBODY as NOBODY
from unrack.view.draft import PLENTY as PLENTY
from unrack.view.draft import Assumed as Assumed
from unrack.view.draft import AssumedRun as AssumedRun
from unrack.view.draft import DeviceLine as DeviceLine
from unrack.view.draft import Draft as Draft
from unrack.view.draft import Expecting as Expecting
from unrack.view.draft import device_line as device_line
from unrack.view.view import NodeColumns as NodeColumns
from unrack.view.view import View as View
