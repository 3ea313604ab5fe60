// One partition: its log as a ribbon, and the events on the log over time.

import { picture } from "../picture.js";

export function open(parts) { return picture({ kind: "log", ...parts }); }
