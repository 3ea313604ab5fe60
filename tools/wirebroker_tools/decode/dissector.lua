-- Interprets the declarations above. Functions move a cursor `c`: {tvb, pos, last, version, flexible}.

local kafka4 = Proto("kafka4", "Apache Kafka, all messages of @RELEASE@ (wirebroker)")
local F = {}
for name, kind in pairs(FIELDS) do
  local label = name:gsub("_", " ")
  local abbreviation = "kafka4." .. name
  if kind == "int" then F[name] = ProtoField.int64(abbreviation, label)
  elseif kind == "uint" then F[name] = ProtoField.uint64(abbreviation, label)
  elseif kind == "bool" then F[name] = ProtoField.bool(abbreviation, label)
  elseif kind == "float" then F[name] = ProtoField.double(abbreviation, label)
  elseif kind == "bytes" then F[name] = ProtoField.bytes(abbreviation, label)
  else F[name] = ProtoField.string(abbreviation, label) end
end
local registered = {}
for _, field in pairs(F) do table.insert(registered, field) end
F["@request_in"] = ProtoField.framenum("kafka4.request_in", "request in", base.NONE, frametype.REQUEST)
F["@latency"] = ProtoField.double("kafka4.latency", "seconds since the request")
table.insert(registered, F["@request_in"])
table.insert(registered, F["@latency"])
kafka4.fields = registered

local not_decoded = ProtoExpert.new("kafka4.not_decoded", "not decoded", expert.group.UNDECODED, expert.severity.WARN)
local damaged = ProtoExpert.new("kafka4.damaged", "damaged", expert.group.MALFORMED, expert.severity.ERROR)
kafka4.experts = { not_decoded, damaged }

local stream_of = Field.new("tcp.stream")
local SIZES = { bool = 1, int8 = 1, int16 = 2, uint16 = 2, int32 = 4, uint32 = 4, int64 = 8, float64 = 8, uuid = 16 }
local COMPRESSION = { [0] = "none", "gzip", "snappy", "lz4", "zstd" }
local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

local function fail(reason) error({ reason = reason }, 0) end

local function range(c, size)
  if size < 0 or c.pos + size > c.last then fail(size .. " bytes belong at byte " .. c.pos .. ", and the frame ends at " .. c.last) end
  return c.tvb(c.pos, size)
end

-- A range that may be empty. Wireshark allows no empty range after the last byte. In its place, this returns the last byte.
local function shown(c, from, to)
  if to > from then return c.tvb(from, to - from) end
  return from < c.tvb:len() and c.tvb(from, 0) or c.tvb(from - 1, 1)
end

-- A number in at most `most` groups of seven bits, one in each byte. The lowest group comes first.
local function groups(c, most)
  local value, factor = 0, 1
  for _ = 1, most do
    local byte = range(c, 1):uint()
    c.pos = c.pos + 1
    value = value + (byte % 128) * factor
    if byte < 128 then return value end
    factor = factor * 128
  end
  fail("a number at byte " .. c.pos .. " has too many bytes")
end

local function uvarint(c) return groups(c, 5) end

local function varint(c)
  local raw = groups(c, 10)
  if raw % 2 == 0 then return raw / 2 end
  return -(raw + 1) / 2
end

local function number(c, size)
  local value = range(c, size):int()
  c.pos = c.pos + size
  return value
end

local function length(c, size)
  if c.flexible then return uvarint(c) - 1 end
  return number(c, size)
end

local function base64(bytes)
  local text, bits, count = {}, 0, 0
  for i = 0, bytes:len() - 1 do
    bits, count = bits * 256 + bytes:get_index(i), count + 8
    while count >= 6 do
      count = count - 6
      local index = math.floor(bits / 2 ^ count)
      bits = bits % 2 ^ count
      table.insert(text, ALPHABET:sub(index + 1, index + 1))
    end
  end
  if count > 0 then
    local index = bits * 2 ^ (6 - count)
    table.insert(text, ALPHABET:sub(index + 1, index + 1))
  end
  return table.concat(text)
end

local struct, records

local function fixed(tree, c, name, kind)
  local r = range(c, SIZES[kind])
  local item
  if kind == "uuid" then
    item = tree:add(F[name], r, base64(r:bytes()))
  else
    item = tree:add(F[name], r)
    if kind == "int16" and name:find("error_code$") then item:append_text(" " .. (ERRORS[r:int()] or "unknown")) end
  end
  c.pos = c.pos + SIZES[kind]
end

local function value(tree, c, field, kind, nullable, label)
  local name, from = field.names[type(kind) == "string" and kind or "struct"] or field.name, c.pos
  if SIZES[kind] then return fixed(tree, c, name, kind) end
  if type(kind) == "number" then
    if nullable and number(c, 1) < 0 then
      tree:add(shown(c, from, c.pos), label .. ": null")
      return
    end
    local branch = tree:add(shown(c, from, c.pos), label)
    struct(branch, c, kind)
    branch:set_len(c.pos - from)
    return
  end
  local size = length(c, kind == "string" and 2 or 4)
  if size < 0 then
    if not nullable then fail(label .. " is null at byte " .. from) end
    tree:add(shown(c, from, c.pos), label .. ": null")
  elseif type(kind) == "table" then
    if size > c.last - c.pos + 8 then fail(label .. " announces " .. size .. " elements at byte " .. from) end
    local branch = tree:add(shown(c, from, c.pos), label .. ": " .. size .. (size == 1 and " element" or " elements"))
    for i = 0, size - 1 do value(branch, c, field, kind[1], false, label .. "[" .. i .. "]") end
    branch:set_len(c.pos - from)
  else
    range(c, size)
    if kind == "records" then
      records(tree, c, size, name, label)
    elseif kind == "string" then
      if size == 0 then tree:add(F[name], shown(c, from, c.pos), "") else
        tree:add_packet_field(F[name], c.tvb(c.pos, size), ENC_UTF_8)
      end
    elseif size == 0 then
      tree:add(shown(c, from, c.pos), label .. ": empty")
    else
      tree:add(F[name], c.tvb(c.pos, size))
    end
    c.pos = c.pos + size
  end
end

local function present(field, version) return field.since <= version and version <= field.until_ end

local function nullable(field, version) return field.null_since <= version and version <= field.null_until end

local function tags(tree, c, fields)
  for _ = 1, uvarint(c) do
    local from = c.pos
    local tag, size = uvarint(c), uvarint(c)
    local after = c.pos + size
    range(c, size)
    local known
    for _, field in ipairs(fields) do
      if field.tag == tag and present(field, c.version) then known = field end
    end
    if known == nil then
      tree:add(shown(c, from, after), "unknown tag " .. tag)
    elseif type(known.kind) == "number" and nullable(known, c.version) then
      if uvarint(c) == 0 then
        tree:add(shown(c, from, c.pos), known.name .. ": null")
      else
        value(tree, c, known, known.kind, false, known.name)
      end
    else
      value(tree, c, known, known.kind, nullable(known, c.version), known.name)
    end
    c.pos = after
  end
end

struct = function(tree, c, index)
  local fields = STRUCTS[index]
  for _, field in ipairs(fields) do
    if field.tag == nil and present(field, c.version) then
      value(tree, c, field, field.kind, nullable(field, c.version), field.name)
    end
  end
  if c.flexible then tags(tree, c, fields) end
end

-- Record batches

local function blob(tree, c, name)
  local from, size = c.pos, varint(c)
  if size < 0 then tree:add(shown(c, from, c.pos), name:gsub("record_", "") .. ": null") return end
  range(c, size)
  tree:add(F[name], shown(c, size > 0 and c.pos or from, c.pos + size))
  c.pos = c.pos + size
end

local function record(tree, c, at)
  local from = c.pos
  local size = varint(c)
  local after = c.pos + size
  local branch = tree:add(range(c, size), "record " .. at)
  c.pos = c.pos + 1
  local time, offset = varint(c), varint(c)
  branch:append_text(", offset delta " .. offset .. ", timestamp delta " .. time)
  blob(branch, c, "record_key")
  blob(branch, c, "record_value")
  for _ = 1, varint(c) do
    local headers = branch:add(shown(c, c.pos, c.pos), "header")
    blob(headers, c, "record_header")
    blob(headers, c, "record_header_value")
  end
  c.pos = after
end

-- Newer releases of Wireshark have another name for this method. A call of an absent method is an error, hence `pcall`.
local function uncompressed(r)
  local done, found = pcall(function() return r:uncompress_zlib("records") end)
  if not done then done, found = pcall(function() return r:uncompress("records") end) end
  return done and found or nil
end

local BATCH = { { "base_offset", 8 }, { "batch_length", 4 }, { "partition_leader_epoch", 4 }, { "magic", 1 }, { "crc", 4 },
  { "attributes", 2 }, { "last_offset_delta", 4 }, { "base_timestamp", 8 }, { "max_timestamp", 8 }, { "producer_id", 8 },
  { "producer_epoch", 2 }, { "base_sequence", 4 }, { "records_count", 4 } }

local function batch(tree, c)
  local held, from = {}, c.pos
  local branch = tree:add(range(c, 61), "batch")
  for _, field in ipairs(BATCH) do
    local r = range(c, field[2])
    branch:add(F[NAMES[field[1]]], r)
    held[field[1]] = field[2] < 8 and r:int() or r:int64()
    c.pos = c.pos + field[2]
  end
  local after, codec = from + held.batch_length + 12, held.attributes % 8
  branch:set_len(after - from)
  local flags = math.floor(held.attributes / 16) % 4
  local words = flags == 1 and ", transactional" or flags == 3 and ", a marker of a transaction" or ""
  branch:append_text(": " .. held.records_count .. " records at offset " .. tostring(held.base_offset) .. ", producer "
    .. tostring(held.producer_id) .. "/" .. held.producer_epoch .. ", sequence " .. held.base_sequence .. words)
  local body = c
  if codec > 0 then
    local name = COMPRESSION[codec] or ("codec " .. codec)
    local packed = branch:add(range(c, after - c.pos), "records, compressed with " .. name)
    local found = codec == 1 and uncompressed(c.tvb(c.pos, after - c.pos))
    body = found and { tvb = found:tvb(), pos = 0, last = found:len() } or nil
    branch = packed
  end
  if body then
    for at = 0, held.records_count - 1 do record(branch, body, at) end
  end
  c.pos = after
end

records = function(tree, c, size, name, label)
  local last, outer, start = c.pos + size, c.last, c.pos
  local branch = tree:add(shown(c, c.pos, last), label .. ": " .. size .. " bytes")
  c.last = last
  while last - c.pos >= 61 do
    if c.tvb(c.pos + 16, 1):uint() ~= 2 or c.tvb(c.pos + 8, 4):int() + 12 > last - c.pos or c.tvb(c.pos + 8, 4):int() < 49 then break end
    batch(branch, c)
  end
  if c.pos < last then branch:add(F[name], c.tvb(c.pos, last - c.pos)) end
  c.last, c.pos = outer, start
end

-- Frames

local streams = {}

local function state(pinfo)
  local id = stream_of()
  id = id and id.value or -1
  streams[id] = streams[id] or { requests = {} }
  return streams[id]
end

-- Whether the bytes look like the beginning of a request.
local function is_request(tvb)
  if tvb:len() < 14 then return false end
  local size, api, version, name = tvb(0, 4):int(), APIS[tvb(4, 2):int()], tvb(6, 2):int(), tvb(12, 2):int()
  return size >= 8 and size < 2 ^ 28 and api ~= nil and version >= 0 and version <= api.newest and name >= -1 and name <= 1000
    and name <= size - 10
end

local function server_port(pinfo, held, tvb)
  if held.server == nil then
    if pinfo.match == pinfo.dst_port or (pinfo.match ~= pinfo.src_port and is_request(tvb)) then
      held.server = pinfo.dst_port
    else
      held.server = pinfo.src_port
    end
  end
  return held.server
end

local function body(tree, c, api, index, word)
  if index == nil or c.version < api.oldest or c.version > api.newest then
    tree:add(shown(c, c.pos, c.last), word .. " in a version that is not known"):add_proto_expert_info(not_decoded)
    return
  end
  c.flexible = c.version >= api.flexible
  struct(tree, c, index)
  if c.pos < c.last then tree:add(range(c, c.last - c.pos), "bytes after the end"):add_proto_expert_info(not_decoded) end
end

local function request(tree, c, held, pinfo)
  local api = APIS[c.tvb(4, 2):int()]
  c.version = c.tvb(6, 2):int()
  if api == nil then
    tree:add(c.tvb(4), "an unknown API, or a token of SASL"):add_proto_expert_info(not_decoded)
    return "request of an unknown API"
  end
  local correlation = c.tvb(8, 4):int()
  tree:add(F.api, c.tvb(4, 2), api.name)
  tree:add(F.api_version, c.tvb(6, 2))
  tree:add(F.correlation_id, c.tvb(8, 4))
  tree:append_text(", " .. api.name .. " v" .. c.version .. " request")
  if not pinfo.visited then
    held.requests[correlation] = held.requests[correlation] or {}
    table.insert(held.requests[correlation], { frame = pinfo.number, api = api, version = c.version, time = pinfo.rel_ts })
  end
  c.pos, c.flexible = 12, false
  value(tree, c, { name = "client_id", names = {} }, "string", true, "client_id")
  if c.version >= api.flexible then tags(tree, c, {}) end
  body(tree, c, api, api.request, "a request")
  return api.name .. " v" .. c.version .. " request"
end

local function response(tree, c, held, pinfo)
  local correlation = c.tvb(4, 4):int()
  local asked
  for _, each in ipairs(held.requests[correlation] or {}) do
    if each.frame <= pinfo.number then asked = each end
  end
  tree:add(F.correlation_id, c.tvb(4, 4))
  c.pos = 8
  if asked == nil then
    tree:add(shown(c, 8, c.last), "a response whose request was not captured"):add_proto_expert_info(not_decoded)
    return "response"
  end
  local api = asked.api
  c.version = asked.version
  tree:add(F.api, c.tvb(4, 4), api.name):set_generated()
  tree:add(F["@request_in"], asked.frame):set_generated()
  tree:add(F["@latency"], pinfo.rel_ts - asked.time):set_generated()
  if api.key == 18 and c.last >= 10 and c.tvb(8, 2):int() == 35 then c.version = 0 end
  tree:append_text(", " .. api.name .. " v" .. c.version .. " response")
  if c.version >= api.flexible and api.key ~= 18 then tags(tree, c, {}) end
  body(tree, c, api, api.response, "a response")
  return api.name .. " v" .. c.version .. " response"
end

local function frame(tvb, pinfo, root)
  local held = state(pinfo)
  local asks = pinfo.dst_port == server_port(pinfo, held, tvb)
  local tree = root:add(kafka4, tvb())
  local c = { tvb = tvb, pos = 4, last = tvb:len(), version = 0, flexible = false }
  tree:add(F.frame_size, tvb(0, 4))
  local done, said = pcall(asks and request or response, tree, c, held, pinfo)
  if not done then
    local reason = type(said) == "table" and said.reason or tostring(said)
    tree:add_proto_expert_info(damaged, reason)
    said = (asks and "request" or "response") .. " that cannot be read: " .. reason
  end
  pinfo.cols.info:append((pinfo.private.kafka4 and "; " or "") .. said)
  pinfo.private.kafka4 = "1"
end

local tls = Dissector.get("tls")

-- Whether a TLS record begins here. A port of Kafka may speak TLS. With a log of keys, Wireshark's TLS dissector decrypts it.
local function is_tls(tvb)
  local kind = tvb(0, 1):uint()
  return kind >= 20 and kind <= 23 and tvb:len() >= 3 and tvb(1, 1):uint() == 3 and tvb(2, 1):uint() <= 4
end

-- `dissect_tcp_pdus` does not join segments for a heuristic dissector, so frames are cut here.
function kafka4.dissector(tvb, pinfo, root)
  local held = state(pinfo)
  held.tls = held.tls or is_tls(tvb)
  if held.tls and not held.decrypts then
    held.decrypts = true
    pinfo.can_desegment = 2 -- each call of a dissector uses up one of these
    tls:call(tvb, pinfo, root)
    held.decrypts = false
    return tvb:len()
  end
  pinfo.cols.protocol = "KAFKA4"
  pinfo.cols.info:set("")
  pinfo.private.kafka4 = nil
  local at, last = 0, tvb:len()
  while at < last do
    local size = last - at >= 4 and tvb(at, 4):int() + 4 or nil
    if size and (size < 8 or size > 2 ^ 28) then
      root:add(kafka4, tvb(at), "Bytes that are not a frame"):add_proto_expert_info(not_decoded)
      return last
    end
    if size == nil or size > last - at then
      pinfo.desegment_offset = at
      pinfo.desegment_len = size and size - (last - at) or DESEGMENT_ONE_MORE_SEGMENT
      return last
    end
    frame(tvb(at, size):tvb(), pinfo, root)
    at = at + size
  end
  return last
end

for _, carrier in ipairs({ "tcp", "tls" }) do
  kafka4:register_heuristic(carrier, function(tvb, pinfo, root)
    local held = state(pinfo)
    if not (is_request(tvb) or held.known) then return false end
    if carrier == "tcp" then pinfo.conversation = kafka4 end
    held.known = carrier == "tls" -- TLS asks again for each piece of a connection
    held.decrypts = carrier == "tls"
    kafka4.dissector(tvb, pinfo, root)
    held.decrypts = false
    return true
  end)
end

function kafka4.init() streams = {} end

local PORTS = "9092-9099,19092-19099"
DissectorTable.get("tcp.port"):add(PORTS, kafka4)
DissectorTable.get("tls.port"):add(PORTS, kafka4)
