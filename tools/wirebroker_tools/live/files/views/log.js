// One partition: its log as a ribbon, and what moves over it in time.

import { picture } from "../picture.js";

export function open(parts) { return picture({ kind: "log", ...parts }); }
