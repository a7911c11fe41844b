/** The formats that a text field of a form may ask for. */
export const FORMATS = { email: isEmail, uri: isUri, date: isDate, "date-time": isDateTime } as const;

export type TextFormat = keyof typeof FORMATS;

/** One @ with a name before it and a host after it. More can be known only by sending a message. */
function isEmail(text: string): boolean {
  const [name, host, ...more] = text.split("@");
  return more.length === 0 && isWord(name) && isWord(host);
}

function isWord(text: string | undefined): boolean {
  return text !== undefined && text !== "" && !/\s/.test(text);
}

function isUri(text: string): boolean {
  return /^[a-z][a-z\d+.-]*:[^\s]+$/i.test(text);
}

function isDate(text: string): boolean {
  const [, year, month, day] = (/^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? []).map(Number);
  if (year === undefined || month === undefined || day === undefined) return false;
  return day >= 1 && day <= daysIn(year, month);
}

function daysIn(year: number, month: number): number {
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  return [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0;
}

/** RFC 3339: a date, a time and its offset. */
function isDateTime(text: string): boolean {
  const [, date, hour, minute, second, offset] =
    /^(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)$/i.exec(text) ?? [];
  if (date === undefined || !isDate(date)) return false;
  const [offsetHour = 0, offsetMinute = 0] = (offset ?? "").slice(1).split(":").map(Number);
  // A leap second is the 60th of its minute.
  const isTime = Number(hour) < 24 && Number(minute) < 60 && Number(second) <= 60;
  return isTime && offsetHour < 24 && offsetMinute < 60;
}
