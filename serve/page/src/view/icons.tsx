// Icons, drawn with lines on a field of 24.
const PATHS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM20 20l-4-4",
  settings: "M4 8h9M17 8h3M4 16h3M11 16h9M13 8a2 2 0 1 0 4 0 2 2 0 0 0-4 0ZM7 16a2 2 0 1 0 4 0 2 2 0 0 0-4 0Z",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M8 8h8v8H8z",
  clip: "M20 11.500l-8 8a5 5 0 0 1-7-7l8.500-8.500a3.300 3.300 0 0 1 4.700 4.700l-8.500 8.500a1.700 1.700 0 0 1-2.400-2.400l7.700-7.700",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 12.500l4.500 4.500L19 7",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  again: "M19 12a7 7 0 1 1-2-5l2 2M19 4v5h-5",
  left: "M14 7l-5 5 5 5",
  right: "M10 7l5 5-5 5",
  down: "M12 5v14M6 13l6 6 6-6",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  close: "M6 6l12 12M18 6L6 18",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500L19 19M19 5l-1.500 1.500M6.500 17.500L5 19",
  moon: "M20 14.500A8.500 8.500 0 1 1 9.500 4a7 7 0 0 0 10.500 10.500Z",
  screen: "M3 5h18v11H3zM9 20h6M12 16v4",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  picture: "M4 5h16v14H4zM4 16l5-5 5 5 2-2 4 4M15 9.500v.01",
  tool: "M14 6a4 4 0 0 1 5-1l-3 3 1 2 2 1 3-3a4 4 0 0 1-6 5l-7 7a2 2 0 0 1-3-3l7-7a4 4 0 0 1 1-4Z",
  warning: "M12 4l9 16H3zM12 10v4M12 17v.01",
  pulse: "M3 12h4l3-7 4 14 3-7h4",
  key: "M14 10a4 4 0 1 0-1 3l1.500 1.500H17V17h2.500v-2.500L14 10ZM9 10v.01",
  chat: "M5 5h14v11h-8l-4 4v-4H5z",
  chevron: "M7 10l5 5 5-5",
  play: "M8 5l11 7-11 7z",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M17.2 2.6c5 .3 9.700 2.700 11.500 7.300 1.900 4.900.8 11.100-2.800 15-3.600 3.900-9.400 5.500-14.500 4.100-4.700-1.300-8.600-5.200-9-10.100-.4-4.700 1.500-9.600 5-12.800 2.700-2.400 6.200-3.700 9.800-3.500Z" />
      <g>
        <circle cx="12" cy="11.500" r="3.100" />
        <circle cx="20.800" cy="9.400" r="1.800" />
        <circle cx="20.300" cy="18.400" r="4" />
        <circle cx="10.400" cy="20.300" r="2.100" />
        <circle cx="15.200" cy="25" r="1.300" />
      </g>
    </svg>
  );
}

interface ButtonProps {
  icon: IconName;
  label: string;
  onClick?: () => void;
  class?: string;
  disabled?: boolean;
  pressed?: boolean;
}

/** A button that is an icon; its label is read out and shown when the pointer rests on it. */
export function IconButton({ icon, label, onClick, class: style = "", disabled, pressed }: ButtonProps) {
  return (
    <button
      type="button"
      class={`icon-button ${style}`}
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}
